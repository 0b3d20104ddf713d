"""A run's directory: its record, lock, inbox and stop file. Read directory.py first."""
