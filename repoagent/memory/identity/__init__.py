"""Which memory belongs to a file: record.py, hints.py, cache.py, similarity.py, git_renames.py, resolve.py, store.py."""
