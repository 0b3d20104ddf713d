"""Find the memory of a file. Read record.py first, then index.py, similarity.py, resolve.py (with git_renames.py) and
store.py."""
