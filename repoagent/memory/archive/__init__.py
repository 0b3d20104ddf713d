"""Export, import and garbage collection of memories. Read export.py first."""
