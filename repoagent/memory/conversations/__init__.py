"""Conversations by name: copies, branches, changes that can be taken back, summaries.

names.py    which names a conversation may have, and which there are
places.py   what a person names: a conversation by its name, or that of a file
origin.py   the line in a copy that says which file it is about
past.py     old texts by their hash, and the record of every change
changing.py the one way in which a conversation is replaced, made or removed
copies.py   save, load, branch
take_back.py undo and redo
rules.py    what a rewritten conversation must keep
listing.py  what there is, at a glance
summary.py  what a model said of one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.memory.conversations.changing import change
    from repoagent.memory.conversations.copies import branch, load, save
    from repoagent.memory.conversations.listing import Entry, entries, entries_of_files
    from repoagent.memory.conversations.names import names
    from repoagent.memory.conversations.past import Change
    from repoagent.memory.conversations.places import Place, find, here, last_spoken, named, of_file
    from repoagent.memory.conversations.rules import check
    from repoagent.memory.conversations.take_back import redo, undo

_HOME = {
    "changing": ("change",),
    "copies": ("branch", "load", "save"),
    "listing": ("Entry", "entries", "entries_of_files"),
    "names": ("names",),
    "past": ("Change",),
    "places": ("Place", "find", "here", "last_spoken", "named", "of_file"),
    "rules": ("check",),
    "take_back": ("redo", "undo"),
}

__all__ = [
    "Change",
    "Entry",
    "Place",
    "branch",
    "change",
    "check",
    "entries",
    "entries_of_files",
    "find",
    "here",
    "last_spoken",
    "load",
    "named",
    "names",
    "of_file",
    "redo",
    "save",
    "undo",
]

__getattr__ = door(__name__, {name: module for module, names in _HOME.items() for name in names})
