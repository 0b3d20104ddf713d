"""A diff from anywhere -> the guard, commit and memory of an edit, with no model.

`run` is the whole of it: the text is read (`given`), its files are found among those that git tracks (`tree`, `bound`),
it is placed (`placing`) or is there already (`already`), lands as an edit does, and is remembered (`remember`). Without
a repository `outside` writes the files alone.
"""
