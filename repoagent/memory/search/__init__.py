"""Full-text search over the memory. Read tokenize.py first, then passages.py, index.py (SQLite FTS5) and search.py."""
