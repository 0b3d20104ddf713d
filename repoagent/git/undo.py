"""Undo and redo an edit: only its own changes move, in files and index; other work stays.

Where the commit of the edit is the tip of its branch and on no other ref, the branch moves to the parent
(`MoveTransaction`). Otherwise a new commit reverts it. An edit without a commit is reverted in the files and unstaged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, NothingDone, Refused
from repoagent.git.facts import current_branch
from repoagent.git.file_writer import Step
from repoagent.git.files import Content, FileChange, look
from repoagent.git.index import Entry, Status, read_entries, read_status
from repoagent.git.merge import Conflict, carry, lines_text, project
from repoagent.git.objects import Commit, has_object, head_commit, read_commit, to_blob
from repoagent.git.process import GitError, git, uninterrupted
from repoagent.git.transaction.base import BaseTransaction
from repoagent.git.transaction.commit import OnOutput, encode
from repoagent.git.transaction.finish import archive
from repoagent.git.transaction.journal import COMMITTING, PlannedPath, Record, save
from repoagent.git.transaction.locks import remove_stale_ref_locks
from repoagent.git.transaction.other_files import update_user_index
from repoagent.git.transaction.plan import Plan, Versions, conflict_lines, refuse_operation
from repoagent.git.transaction.results import Options, restored_notes
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo_log import Edit, commit_of, edit_record, find_edit, is_as_stored, is_shared, is_whole
from repoagent.git.worktree import WorkTree
from repoagent.storage.journal import Journal
from repoagent.storage.layout import to_stderr


def changes_of(worktree: WorkTree, record: Record, *, undo: bool) -> Iterator[FileChange]:
    """The change of each file as it is now that takes the edit back (`undo`) or makes it again; nothing for one that
    is there already. Raises Refused where later changes lie on the same lines."""
    steps = {step.path: step for step in record.steps}
    renamed = renamed_by(record)
    for new_path, old_path in renamed.items():
        old, new = steps.pop(old_path).old, steps.pop(new_path).new
        sides = (new_path, new, old_path, old) if undo else (old_path, old, new_path, new)
        yield from _renaming(worktree, *sides)
    for step in steps.values():
        was, becomes = (step.new, step.old) if undo else (step.old, step.new)
        now = look(worktree.top, step.path)
        target = _carry(worktree, step.path, now, was, becomes)
        if now != target:
            yield _change(step.path, now, step.path, target)


def renamed_by(record: Record) -> dict[str, str]:
    """The new paths of what the edit renamed, with the old ones. An edit without a commit keeps only its writes,
    where a rename is a file made and at once another one taken away."""
    if record.planned:
        return {planned.path: planned.renamed for planned in record.planned if planned.renamed}
    return {
        made.path: gone.path
        for made, gone in pairwise(record.steps)
        if made.old is None and made.new is not None and gone.old is not None and gone.new is None
    }


def _renaming(
    worktree: WorkTree, path: str, was: Content | None, to: str, becomes: Content | None
) -> Iterator[FileChange]:
    """The file at `path` goes to `to`, with all that was done to it since."""
    now, there = look(worktree.top, path), look(worktree.top, to)
    if now is None and there is not None:
        return  # somebody has done it already
    if now is None or there is not None:
        missing = f"{path} was deleted" if now is None else f"{to} exists again"
        raise Refused(f"{missing}: fix it by hand, or use `git revert`")
    yield _change(path, now, to, _carry(worktree, path, now, was, becomes))


def _change(path: str, now: Content | None, to: str, target: Content | None) -> FileChange:
    return FileChange(
        path if now else None,
        to if target else None,
        now.data if now else None,
        target.data if target else None,
        now.mode if now else None,
        target.mode if target else None,
    )


def _carry(
    worktree: WorkTree, path: str, now: Content | None, was: Content | None, becomes: Content | None
) -> Content | None:
    """What the file is to be, with all that was done to it since."""
    target = carry(worktree, now, was, becomes)
    if not isinstance(target, Conflict):
        return target
    if any(one is None or one.is_link for one in (now, was, becomes)):
        raise Refused(f"{path} changed after the edit: fix it by hand, or use `git revert`")
    where = f" ({lines_text(target.lines)} of that version)" if target.lines else ""
    raise Refused(f"{path} has later changes on the same lines{where}: resolve them by hand")


def revert_message(worktree: WorkTree, edit: Edit, commit: str, *, whole: bool) -> bytes:
    """As `git revert` says it; `whole` unless the commit holds more than the edit."""
    subject = os.fsdecode(git(worktree.top, "log", "-n1", "--format=%s", "--encoding=UTF-8", commit)).strip()
    what = "" if whole else f"the edit {edit.id} in "
    text = f'Revert "{subject}"\n\nThis reverts {what}commit {commit}.\n\nRepoagent-Undo: {edit.id}\n'
    return encode(worktree, text, "replace")


def redo_message(worktree: WorkTree, edit: Edit, record: Record) -> bytes:
    """The message of the commit as it was in the end, with what hooks and people had made of it."""
    if edit.commit and has_object(worktree, edit.commit):
        text = git(worktree.top, "log", "-n1", "--format=%B", "--encoding=UTF-8", edit.commit)
        return encode(worktree, text.decode(errors="replace"), "replace")
    return os.fsencode(record.message or "")


@dataclass(frozen=True)
class HeadMove:
    """Of HEAD, from the commit `start` to the commit `to` ("": to none, the branch is unborn), which has
    `becomes` where `start` has `was`.

    `renamed` says for a path that appears which one it was. `staged` are the index entries where the edit has
    left them, with what they are to be again if all are as it left them.
    """

    start: str | None
    to: str
    was: Mapping[str, Entry | None]
    becomes: Mapping[str, Entry | None]
    renamed: Mapping[str, str]
    staged: Mapping[str, tuple[Entry | None, Entry | None]]


class MoveTransaction(BaseTransaction):
    """Write the files, then set the branch of HEAD."""

    def __init__(
        self, worktree: WorkTree, changes: Sequence[FileChange], way: HeadMove, event: str, edit_id: str
    ) -> None:
        super().__init__(worktree, changes, event, edit_id, commits=True)
        self._way = way
        self._record = replace(self._record, moves_to=way.to)

    def _make_plan(self, status: Status) -> Plan:
        return _plan(self._worktree, status, self._way)

    def move(self) -> None:
        """Set the branch, if HEAD is still where it was; the index follows. Raises Busy if it is not."""
        self._refuse_moved(head_commit(self._worktree), current_branch(self._worktree))
        self._record = record = replace(
            self._record, state=COMMITTING, commit=self._way.to or None, started=time.time_ns()
        )
        save(self._open(), record)
        with uninterrupted():
            if self._way.to != (self._way.start or ""):
                self._set_branch(record)
            self._end()

    def _set_branch(self, record: Record) -> None:
        where = ("HEAD", self._way.to) if self._way.to else ("-d", "HEAD")
        reason = f"repoagent: {record.event} {record.id}"
        try:
            git(self._worktree.top, "update-ref", "-m", reason, *where, record.head or "", read_only=False)
        except GitError as error:
            if error.returncode < 0:  # it was killed, perhaps when it had done it
                remove_stale_ref_locks(self._worktree, record)
            if (head_commit(self._worktree) or "") != self._way.to:
                raise Busy(f"cannot update the branch, try again: {error.stderr}") from error

    def _find_commit(self) -> Commit | None:
        return None

    def _finish(self, journal: Journal, made: Commit | None) -> None:
        record = self._record
        if record.state == COMMITTING and (head_commit(self._worktree) or "") == self._way.to:
            update_user_index(self._worktree, journal, record, {})
            archive(self._worktree, journal, record)
        else:
            super()._finish(journal, made)


def _plan(worktree: WorkTree, status: Status, way: HeadMove) -> Plan:
    """The plan where HEAD moves along `way`: only the index is left to be planned.

    Raises Refused when something else is staged on the same lines, Busy when HEAD is not where it begins.
    """
    if status.head != way.start:
        raise Busy("another program moved HEAD: check `git log` and try again")
    paths = [*way.was, *(path for path in way.staged if path not in way.was)]
    versions = Versions(worktree, status, read_entries(worktree, paths), include_dirty=False)
    as_left = all(versions.staged(path) == left for path, (left, _) in way.staged.items())
    planned = []
    for path in paths:
        staged, old, new = versions.staged(path), way.was.get(path), way.becomes.get(path)
        if path not in way.was:
            old = new = versions.in_head(path)
        stage = staged if old == new else _stage_moved(versions, way, path)
        if as_left and path in way.staged and _is_there(worktree, way.staged[path][1]):
            stage = way.staged[path][1]
        if isinstance(stage, Conflict):
            raise Refused(
                f"{path} has other staged changes{conflict_lines(stage)}: commit, stash or unstage them first"
            )
        planned.append(PlannedPath(path, old, staged, old, new, new, stage, versions.index.get(path)))
    return Plan(status.head, status.branch, tuple(planned), tuple(status.changed))


def _stage_moved(versions: Versions, way: HeadMove, path: str) -> Entry | Conflict | None:
    """What is staged at `path` with the change of HEAD; other staged work follows a rename."""
    if path in way.renamed.values():
        return None
    source = way.renamed.get(path, path)
    if source != path and versions.staged(path) is not None:
        return Conflict()
    return project(versions.worktree, versions.staged(source), way.was[source], way.becomes[path])


def _is_there(worktree: WorkTree, entry: Entry | None) -> bool:
    """Whether the blob is still kept: what was only staged once may be gone."""
    return entry is None or has_object(worktree, entry.oid)


def unstage_changes(
    worktree: WorkTree, changes: Sequence[FileChange], steps: Sequence[Step], event: str, edit_id: str
) -> bool:
    """Write `changes`, which take `steps` back, and take out of the index what is staged of those, all else kept; in a
    merge too, for HEAD stays where it is. False, and nothing done, where nothing of them is staged.

    What is staged on the same lines and is not the change stays, too. Raises what a Transaction raises.
    """
    if not any(_planned(worktree, read_status(worktree), steps)):
        return False
    with _Unstage(worktree, changes, steps, event, edit_id) as back:
        back.write()
        back.move()
    return True


class _Unstage(MoveTransaction):
    """Write the files, then the index."""

    _is_for_head = False

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        back: Sequence[Step],
        event: str,
        edit_id: str,
    ) -> None:
        head = head_commit(worktree)
        super().__init__(worktree, changes, HeadMove(head, head or "", {}, {}, {}, {}), event, edit_id)
        self._back = back

    def _make_plan(self, status: Status) -> Plan:
        if status.head != self._way.start:
            raise Busy("another program moved HEAD: check `git log` and try again")
        planned = tuple(_planned(self._worktree, status, self._back))
        return Plan(status.head, status.branch, planned, tuple(status.changed))


def _planned(worktree: WorkTree, status: Status, back: Sequence[Step]) -> Iterator[PlannedPath]:
    """The entries of the index that are to be others. What HEAD has of a step too is not staged, but committed."""
    steps = {step.path: step for step in back if step.path in status.changed}
    index = read_entries(worktree, steps) if steps else {}
    versions = Versions(worktree, status, index, include_dirty=False)
    for path, step in steps.items():
        head, staged = versions.in_head(path), versions.staged(path)
        announced = status.changed[path].intent_to_add and step.old is None  # a new file, by `git add -N`
        if staged == head and not announced:
            continue
        before, after = (_blob(versions, path, content) for content in (step.old, step.new))
        without = project(worktree, head, after, before)
        if without != head and not isinstance(without, Conflict):
            continue
        stage = project(worktree, staged, after, before)
        if isinstance(stage, Conflict):  # the person has staged something else on these lines: it is theirs
            continue
        if stage != staged or announced:
            yield PlannedPath(path, head, staged, head, head, head, stage, index.get(path))


def _blob(versions: Versions, path: str, content: Content | None) -> Entry | None:
    return None if content is None else to_blob(versions.worktree, path, content, versions.staged(path))


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
    listen: OnOutput | None = None,
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
        if unstage_changes(worktree, changes, record.steps, "undo", edit.id):
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
        way = HeadMove(commit, made.parent or "", made.changed, made.was, back, staged)
        return _move(worktree, edit, changes, way, "undo")
    transaction = Transaction(worktree, _refuse_empty(changes), options, edit.id, event="undo", listen=listen)
    return _with_commit(edit, transaction, revert_message(worktree, edit, commit, whole=whole))


def redo(
    worktree: WorkTree,
    edit_id: str | None = None,
    options: Options | None = None,
    *,
    listen: OnOutput | None = None,
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
        way = HeadMove(edit.parent, made.oid, made.was, made.changed, renamed_by(record), staged)
        return _move(worktree, edit, changes, way, "redo")
    transaction = Transaction(worktree, _refuse_empty(changes), options, edit.id, event="redo", listen=listen)
    return _with_commit(edit, transaction, redo_message(worktree, edit, record))


def _move(worktree: WorkTree, edit: Edit, changes: Changes, way: HeadMove, event: str) -> UndoResult:
    with MoveTransaction(worktree, changes, way, event, edit.id) as move:
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
    for sentence in (*result.notes, *restored_notes(result.restored)):
        to_stderr(sentence)
    return UndoResult(edit, result.commit, False, edit.paths)


def _refuse_empty(changes: Changes) -> Changes:
    if not changes:
        raise NothingDone("nothing to commit: the files are already in that state; choose another edit")
    return changes
