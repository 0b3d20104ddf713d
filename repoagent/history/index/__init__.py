"""The index of the history in SQLite, brought up to HEAD on use. Read index.py first."""
