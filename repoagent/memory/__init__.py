"""What is remembered about a file: notes, edits, summaries, conversations. Read prompt.py and notes.py first."""
