"""The edits of the past, and how one is taken back or made again.

undo_redo.py does it: by a commit, or by moving the branch (move.py) where nobody would notice (history.py); what
has no commit leaves the index too where it was staged (unstage.py).
reverse.py says what the files become, edits.py which edits there are, messages.py what such a commit says.
"""

from __future__ import annotations

from repoagent.repo.undo.edits import Edit, edit_record, find_edit, list_edits
from repoagent.repo.undo.history import Undoable, list_undoable
from repoagent.repo.undo.undo_redo import UndoResult, redo, undo
from repoagent.repo.undo.unstage import taken_out

__all__ = [
    "Edit",
    "UndoResult",
    "Undoable",
    "edit_record",
    "find_edit",
    "list_edits",
    "list_undoable",
    "redo",
    "taken_out",
    "undo",
]
