"""Undo or redo an edit, record this in its files' memories, and find the last request."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from repoagent.dataclass import dataclass
from repoagent.edit.memory import STATES, content_of, pending_record, record_undone
from repoagent.edit.request import Target, files_named
from repoagent.errors import NothingDone, Refused, RepoagentError
from repoagent.git import undo as git_undo
from repoagent.git.process import defer_signals
from repoagent.git.undo import UndoResult
from repoagent.git.undo_log import Edit, find_edit, list_edits
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.llm.conversation import read_conversation
from repoagent.memory.identity.store import read_memories, resolve_all
from repoagent.storage.layout import to_stderr


@dataclass(frozen=True)
class LastRequest:
    edit: Edit
    request: str
    targets: tuple[Target, ...]


def undo(worktree: WorkTree, edit_id: str | None = None) -> UndoResult:
    """Undo the edit `edit_id`, by default the last one. Raises what `git.undo.undo` raises."""
    return _change(worktree, find_edit(worktree, edit_id, undone=False), "undo")


def redo(worktree: WorkTree, edit_id: str | None = None) -> UndoResult:
    """Redo an undone edit, by default the last one. Raises what `git.undo.redo` raises."""
    return _change(worktree, find_edit(worktree, edit_id, undone=True), "redo")


def _change(worktree: WorkTree, edit: Edit, event: str) -> UndoResult:
    change = git_undo.undo if event == "undo" else git_undo.redo
    try:
        before = resolve_all(
            layout_of(worktree), worktree, ((path, content_of(worktree, path)) for path in edit.paths)
        )
    except (RepoagentError, OSError) as error:  # undo the edit nevertheless
        to_stderr(f"could not read the memory of {', '.join(edit.paths)}: {error}")
        before = {}
    with pending_record(worktree, edit.id, event) as record:
        if before:
            record.keep(before)
        result = change(worktree, edit.id)
        with defer_signals():
            try:
                record_undone(worktree, replace(edit, commit=result.commit), before, STATES[event])
            except (RepoagentError, OSError) as error:  # the edit is undone nevertheless
                to_stderr(f"could not update the memory of {', '.join(result.paths)}: {error}")
            else:
                record.drop()
    return result


def last_request(worktree: WorkTree) -> LastRequest:
    """The request of the last edit, even if that edit was undone.

    Raises NothingDone if there is no edit, Refused if the request is no longer stored.
    """
    edits = list_edits(worktree)
    if not edits:
        raise NothingDone("no edit to try again: this work tree has none yet")
    edit = edits[-1]
    present = resolve_all(
        layout_of(worktree), worktree, ((path, content_of(worktree, path)) for path in edit.paths)
    ).values()
    gone = (memory for memory in read_memories(layout_of(worktree)) if memory.identity.path in edit.paths)
    for memory in chain(present, gone):
        conversation = read_conversation(memory.conversation)
        for turn in conversation.turns if conversation else ():
            if turn.role == "user" and turn.meta.get("edit") == edit.id:
                return LastRequest(edit, turn.text, files_named(turn.meta) or tuple(map(Target, edit.paths)))
    raise Refused(
        f"the request for edit {edit.id} is no longer stored: undo the edit with `repoagent undo` and "
        "request it again"
    )
