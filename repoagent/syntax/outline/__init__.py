"""The symbols that a file defines.

Read `outline` first, then `walk`, which finds definitions with the tables of `rules` and `special_cases`. `markup`,
`pages` and `data_formats` make the outlines of documents, HTML and data files. `symbol` has the result type.
"""
