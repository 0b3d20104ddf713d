"""Patches as models write them: parse them, locate them, and apply all of them or none.

Read model first (`FilePatch`, `Hunk`, `FileText`), then parse/ (from an answer to patches), targets (from names to
files), locate/ (from hunks to lines), apply_file and splice (the new bytes), combine (several patches to one file),
and refusal. apply_answer is the entry point.
"""
