"""Fit a conversation into the context window. Read window.py first, then shorten_text.py."""
