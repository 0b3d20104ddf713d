"""Fit a conversation into the context window: read window.py first, then checkpoint.py and shorten_text.py."""
