"""The plan of a run: read document.py first, then tool.py and file.py."""
