"""Commit chosen files and nothing else, completely or not at all, without losing anything that the user saves.

Read transaction.py first. plan.py plans the commit, commit.py runs `git commit`, hook_changes.py judges what hooks
changed, and other_files.py protects the user's other work. finish.py completes, rolls back and recovers, from the
record of journal.py.
"""
