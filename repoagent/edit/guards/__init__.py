"""Limits on an edit: its scope, sensitive files, and text that must not be lost."""
