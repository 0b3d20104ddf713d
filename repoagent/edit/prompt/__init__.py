"""The prompt of an edit: files, memory, history, neighbors, and excerpts of large files. Read build.py first."""
