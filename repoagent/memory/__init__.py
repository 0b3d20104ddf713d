"""What is known about a file, tied to the file and not to its path: identity, notes, edits, recall."""

from __future__ import annotations

from repoagent.memory.identity import Identity, Memory
from repoagent.memory.notes import Note, add_note, read_notes
from repoagent.memory.recall import block, search
from repoagent.memory.records import EditRecord, append_edit, read_edits
from repoagent.memory.remember import memories, orphans, remember, resolve

__all__ = [
    "EditRecord",
    "Identity",
    "Memory",
    "Note",
    "add_note",
    "append_edit",
    "block",
    "memories",
    "orphans",
    "read_edits",
    "read_notes",
    "remember",
    "resolve",
    "search",
]
