"""Export, import and garbage collection of memories: format.py, import_archive.py, gc.py, forget.py."""
