"""Which memory belongs to a file: record.py, hints.py and cache.py, similarity.py, resolve.py, store.py."""
