"""Export, import and garbage collection of memories: format.py, import_archive.py, orphans.py,
gc.py.
"""
