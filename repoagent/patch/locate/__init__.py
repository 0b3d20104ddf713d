"""The hunks of one file -> the one place of each, or why it has none.

`place` is the whole of it: what happened to the answer on its way is undone (`transport`), each hunk gets the places
where it fits (`fits`: level by level with `match`, in parts with `chains`, loosely with `align` if `held` is sure),
one is chosen (`choose`), and what has none is explained (`applied`, `explain`).
"""
