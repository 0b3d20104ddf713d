"""What is known about a file, tied to the file and not to its path: identity, notes, edits, recall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.memory.identity.record import Identity, Memory
    from repoagent.memory.identity.relink import relink
    from repoagent.memory.identity.remember import copy_of, listing, memories, orphans, remember, resolve
    from repoagent.memory.notes.file import Note, add_note, read_notes
    from repoagent.memory.prompt import block
    from repoagent.memory.recall import search, search_memory
    from repoagent.memory.records import EditRecord, append_edit, read_edits

_HOME = {
    "identity.record": ("Identity", "Memory"),
    "identity.relink": ("relink",),
    "identity.remember": ("copy_of", "listing", "memories", "orphans", "remember", "resolve"),
    "notes.file": ("Note", "add_note", "read_notes"),
    "prompt": ("block",),
    "recall": ("search", "search_memory"),
    "records": ("EditRecord", "append_edit", "read_edits"),
}

__all__ = [
    "EditRecord",
    "Identity",
    "Memory",
    "Note",
    "add_note",
    "append_edit",
    "block",
    "copy_of",
    "listing",
    "memories",
    "orphans",
    "read_edits",
    "read_notes",
    "relink",
    "remember",
    "resolve",
    "search",
    "search_memory",
]

__getattr__ = door(__name__, {name: module for module, names in _HOME.items() for name in names})
