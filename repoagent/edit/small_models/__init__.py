"""Support for small models: excerpts.py (parts of files to show), replies.py (patches from plain code),
code_repairs.py (typical mistakes)."""
