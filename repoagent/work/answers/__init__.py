"""What a program asks of a repository, and the answers as plain values: the library gives them out, the MCP server
sends them. Paths are those of `str`, from the top of the work tree.

neighbors.py  which files change together; past.py a file's history, with the summaries that are kept
outlined.py   what a file defines; segments.py its segments, in memory; review.py findings on a change
revisions.py  which names of revisions git can be asked for
landed.py     how an edit ended; patching.py a patch on its way there
"""
