"""What of a file that is too long for a prompt a model is shown: its outline, and the parts that a request is about.

`terms` reads a request, `units` are the segments of a file with their text, `rank` scores them, `parts` are those that
are shown, `map` is the outline within a budget, `block` the text of it all, `blocks` those of one prompt. `room` says
which files are too long and how much of each is shown, `recent` which lines changed lately. `reading` is what one
`read` gives; `guessed` tells hunks that quote unseen lines wrongly.
"""
