"""The directory of a run: record, heartbeat, inbox, pause and stop. Read directory.py first."""
