"""Edited segments -> the guard, commit and memory of an edit.

`run` is the whole of it: the folder is read (`gather`), joined with the source as it is (`source`, `merging`), what
stands against it is said (`clash`), it lands as an edit does with a message (`words`), and the folder is brought up to
date (`after`). A file that is in no repository is written alone.
"""
