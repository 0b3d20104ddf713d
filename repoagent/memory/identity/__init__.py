"""Find the memory of a file: record.py, hints.py, cache.py, similarity.py, resolve.py (git_renames.py), store.py."""
