"""`repoagent chat`: a conversation with a model, turn by turn, each of which is one `work.run`.

command.py   the options, and the loop from line to line
chat.py      what a chat has on the table, and one turn of it
show.py      what a person sees of a turn: its words, its actions, how it ended; the last turn of a chat gone on with
slash.py     the table of the commands that begin with a slash
talking.py changing.py files.py   these commands: of the conversation, of what was changed, of what was shown
shell.py     commands of the person's own, after `!`
stream.py    a chat with a program: lines of JSON
reading.py   lines from a pipe, or a terminal that can do nothing
editor.py    the line editor; the only place that imports prompt_toolkit, with keys.py and completing.py
history.py   what was typed before, in a file of the user's own
paths.py     the tracked files, for completion
bar.py       the line at the bottom
"""

from __future__ import annotations
