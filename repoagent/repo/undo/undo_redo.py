"""Take an edit back, or make it again: only its own bytes move, in files and index, other work stays."""

from __future__ import annotations

from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone
from repoagent.repo.change import FileChange
from repoagent.repo.commits import has_object, head_commit, read_commit
from repoagent.repo.options import Options
from repoagent.repo.transaction.git_commit import Listen
from repoagent.repo.transaction.refusals import refuse_operation
from repoagent.repo.transaction.results import said_of_restored
from repoagent.repo.transaction.transaction import Transaction
from repoagent.repo.undo.edits import Edit, edit_record, find_edit
from repoagent.repo.undo.history import commit_of, is_as_stored, is_shared, is_whole
from repoagent.repo.undo.messages import message_again, revert_message
from repoagent.repo.undo.move import Move, Way
from repoagent.repo.undo.reverse import changes_of, renamed_by
from repoagent.repo.undo.unstage import taken_out
from repoagent.repo.worktree import WorkTree
from repoagent.store.report import to_stderr

Changes = tuple[FileChange, ...]


@dataclass(frozen=True)
class UndoResult:
    """`commit` is what HEAD is on now (None: no commit). `moved` says that the branch was set to it; else
    it is a new commit, or nothing was committed at all (an edit made without a commit)."""

    edit: Edit
    commit: str | None
    moved: bool
    paths: tuple[str, ...]


def undo(
    worktree: WorkTree,
    edit_id: str | None = None,
    options: Options | None = None,
    *,
    listen: Listen | None = None,
) -> UndoResult:
    """Take back the edit, by default the last one that is not taken back.

    If its commit is the tip of the branch and on no other ref, the branch moves back; otherwise a new commit
    reverts it (`options` are for that). Raises NothingDone when there is none, Refused when later changes lie
    on the same lines or its commit is not in this branch, and what a Transaction raises.
    """
    edit = find_edit(worktree, edit_id, undone=False)
    if not edit.no_commit:
        refuse_operation(worktree, offer=False)
    record = edit_record(worktree, edit)
    changes = tuple(changes_of(worktree, record, undo=True))
    if edit.no_commit:
        if taken_out(worktree, changes, record.steps, "undo", edit.id):
            return UndoResult(edit, None, False, edit.paths)
        return _without_commit(worktree, edit, changes, "undo")
    commit = commit_of(worktree, edit)
    whole = is_whole(worktree, edit, commit)
    made = read_commit(worktree, commit)
    if (
        whole
        and commit == head_commit(worktree)
        and is_as_stored(worktree, made)
        and not is_shared(worktree, commit)
    ):
        back = {old: new for new, old in renamed_by(record).items()}
        staged = {planned.path: (planned.stage, planned.staged_here) for planned in record.planned}
        way = Way(commit, made.parent or "", made.changed, made.was, back, staged)
        return _move(worktree, edit, changes, way, "undo")
    transaction = Transaction(worktree, _some(changes), options, edit.id, event="undo", listen=listen)
    return _with_commit(edit, transaction, revert_message(worktree, edit, commit, whole=whole))


def redo(
    worktree: WorkTree,
    edit_id: str | None = None,
    options: Options | None = None,
    *,
    listen: Listen | None = None,
) -> UndoResult:
    """Make the edit again, by default the last one that was taken back. Raises as `undo` does.

    If HEAD is where the edit began, the branch moves forward to its old commit; otherwise a new commit is
    made with its message.
    """
    edit = find_edit(worktree, edit_id, undone=True)
    if not edit.no_commit:
        refuse_operation(worktree, offer=False)
    record = edit_record(worktree, edit)
    changes = tuple(changes_of(worktree, record, undo=False))
    if edit.no_commit:
        return _without_commit(worktree, edit, changes, "redo")
    if edit.commit and head_commit(worktree) == edit.parent and has_object(worktree, edit.commit):
        made = read_commit(worktree, edit.commit)
        staged = {planned.path: (planned.staged_here, planned.stage) for planned in record.planned}
        way = Way(edit.parent, made.oid, made.was, made.changed, renamed_by(record), staged)
        return _move(worktree, edit, changes, way, "redo")
    transaction = Transaction(worktree, _some(changes), options, edit.id, event="redo", listen=listen)
    return _with_commit(edit, transaction, message_again(worktree, edit, record))


def _move(worktree: WorkTree, edit: Edit, changes: Changes, way: Way, event: str) -> UndoResult:
    with Move(worktree, changes, way, event, edit.id) as move:
        move.write()
        move.move()
    return UndoResult(edit, way.to or None, True, edit.paths)


def _without_commit(worktree: WorkTree, edit: Edit, changes: Changes, event: str) -> UndoResult:
    with Transaction(worktree, changes, Options(no_commit=True), edit.id, event=event) as transaction:
        transaction.write()
        transaction.keep()
    return UndoResult(edit, None, False, edit.paths)


def _with_commit(edit: Edit, transaction: Transaction, message: bytes) -> UndoResult:
    with transaction:
        transaction.write()
        result = transaction.commit(message, at_once=True)
    for sentence in (*result.notes, *said_of_restored(result.restored)):
        to_stderr(sentence)
    return UndoResult(edit, result.commit, False, edit.paths)


def _some(changes: Changes) -> Changes:
    if not changes:
        raise NothingDone(
            "the files are in that state already, there is nothing to commit: name another edit"
        )
    return changes
