"""What is known about a file, tied to the file and not to its path: identity, notes, edits, recall."""

from __future__ import annotations

from repoagent.memory.identity.record import Identity, Memory
from repoagent.memory.identity.relink import relink
from repoagent.memory.identity.remember import copy_of, listing, memories, orphans, remember, resolve
from repoagent.memory.notes.file import Note, add_note, read_notes
from repoagent.memory.prompt import block
from repoagent.memory.recall import search, search_memory
from repoagent.memory.records import EditRecord, append_edit, read_edits

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
