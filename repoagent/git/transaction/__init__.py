"""One commit of chosen files and nothing else: all of it or none of it, and no byte that the user saves is lost.

Read transaction.py first. plan.py says what is committed, base.py writes the files, commit.py runs `git commit`,
hooks.py judges what hooks changed, other_files.py protects the user's other work, finish.py completes, rolls back
and recovers. journal.py is the record on disk, locks.py git's own lock, results.py what callers get.
"""
