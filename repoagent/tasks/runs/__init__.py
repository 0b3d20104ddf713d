"""The directory of a run: record, lock, inbox, pause and stop. Read directory.py first."""
