"""Call git, read its objects, index and work tree, and write the files of the work tree safely.

Read worktree.py and process.py first, then files.py, index.py and objects.py. file_writer.py replaces one file,
merge.py applies a change to another version of a file, transaction/ makes commits, and undo.py reverts them.
program.py runs other programs within limits.
"""
