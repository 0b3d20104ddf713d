"""Full-text search over the memory: tokenize.py, passages.py, index.py (SQLite FTS5), ranking.py, search.py."""
