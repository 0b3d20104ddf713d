"""Fit a conversation into the context window: read window.py first, then shorten_text.py."""
