"""Find the memory of a file. Read record.py first, then memory_index.py, renames.py, resolve.py and
store.py."""
