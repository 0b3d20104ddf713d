"""The symbols that a file defines, for each language. Read outline.py first."""
