"""One commit of chosen files and nothing else: lock, plan, journal, write, commit, recover.

A commit is made whole or not at all, and no byte that the user saves meanwhile is lost. Read transaction.py first.
"""
