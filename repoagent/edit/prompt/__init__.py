"""The prompt of an edit. Read build.py first, then blocks.py (layout), formats.py (answer formats), large_files.py and
relevance.py (excerpts), and instruction_files.py (AGENTS.md and others)."""
