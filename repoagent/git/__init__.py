"""Git, called directly: processes, objects, the index, the work tree. Read worktree.py and process.py first."""
