"""What there is: which memory a person means, where its file is, how much it holds.

find.py      a memory by the name that a person gives it
state.py     live, moved or orphaned
rows.py      the rows of a list, of a hundred thousand memories too
standing.py  all of it together: how much, what is set aside, who holds a lock
"""
