"""Export, import and garbage collection of memories: format.py, export.py, merge.py, import_archive.py, orphans.py,
gc.py.
"""
