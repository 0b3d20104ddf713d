"""What of a conversation fits into the context window of a model. Read window.py first."""
