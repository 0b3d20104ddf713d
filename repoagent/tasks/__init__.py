"""`repoagent run`: a whole task, from the request to the commit.

Read run_context.py first, then session.py, which drives a run: start.py, toolset.py, finish.py and commit.py are its
steps. Below them, changes/ tracks the files that a run changes, and runs/ manages its directory; restore.py undoes its
changes, subagents.py runs parts of a task in other processes, worktree.py runs a task in a linked work tree.
"""
