"""Full-text search over memories. Read search.py first."""
