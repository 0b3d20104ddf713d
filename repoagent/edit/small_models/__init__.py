"""Support for small models: excerpts.py (parts of files to show), replies.py (plain code back to patches), repair.py
(typical mistakes)."""
