"""`repoagent run`: a whole task, from the request to the commit.

Read run_context.py first, then session.py, which drives a run: start.py, toolset.py, finish.py and commit.py are its
steps. Below them, changes/ has what a run changed and runs/ its directory; subagents/ runs parts of a task in other
processes. worktree.py runs a task in a linked work tree; uncommitted_by_run.py restores what a run left.
"""
