"""Undo and redo an edit: only its own changes are reverted or reapplied, in the files and the index.

If the edit's commit is the tip of its branch and on no other ref, the branch moves to the parent (`MoveTransaction`);
otherwise a new commit reverts it. An edit without a commit is reverted in the files and unstaged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, NothingDone, Refused
from repoagent.git.file_writer import FileStep
from repoagent.git.files import Content, FileChange, read_content
from repoagent.git.index import Entry, Staged, Status, read_entries, read_status
from repoagent.git.merge import Conflict, lines_text, merge_content, merge_entry
from repoagent.git.objects import Commit, has_object, head_commit, read_commit
from repoagent.git.process import GitError, defer_signals, git
from repoagent.git.transaction.commit import encode_message
from repoagent.git.transaction.finish import archive_edit
from repoagent.git.transaction.journal import COMMITTING, JournalRecord, PlannedPath
from repoagent.git.transaction.other_files import update_user_index
from repoagent.git.transaction.plan import CommitPlan, EntryVersions, conflict_lines, refuse_operation
from repoagent.git.transaction.results import Options, restored_notes
from repoagent.git.transaction.transaction import BaseTransaction, Transaction
from repoagent.git.undo_log import Edit, commit_of, edit_record, find_edit, is_as_stored, is_shared, is_whole
from repoagent.git.worktree import WorkTree, current_branch
from repoagent.storage.layout import to_stderr


@dataclass(frozen=True)
class UndoResult:
    """The result of an undo or a redo. `commit` is HEAD's current commit (None: there is none).

    If `moved`, the branch was set to this commit. Otherwise the commit is new, unless the edit had none.
    """

    edit: Edit
    commit: str | None
    moved: bool
    paths: tuple[str, ...]


def undo(worktree: WorkTree, edit_id: str | None = None) -> UndoResult:
    """Undo an edit, by default the last one.

    Raises NothingDone if there is none, Refused if later changes are on the same lines or the edit's commit is not on
    this branch, and what a Transaction raises.
    """
    plan = _read(worktree, edit_id, "undo")
    edit = plan.edit
    if edit.no_commit:
        if unstage_changes(worktree, plan.changes, plan.record.steps, "undo", edit.id):
            return UndoResult(edit, None, False, edit.paths)
        return _without_commit(worktree, plan)
    commit = commit_of(worktree, edit)
    whole = is_whole(worktree, edit, commit)
    made = read_commit(worktree, commit)
    is_tip = whole and commit == head_commit(worktree)
    if is_tip and is_as_stored(worktree, made) and not is_shared(worktree, commit):
        return _move_branch(worktree, plan, made)
    # in the words of `git revert`
    subject = os.fsdecode(git(worktree.top, "log", "-n1", "--format=%s", "--encoding=UTF-8", commit)).strip()
    part = "" if whole else f"edit {edit.id} in "
    text = f'Revert "{subject}"\n\nThis reverts {part}commit {commit}.\n\nRepoagent-Undo: {edit.id}\n'
    return _with_commit(worktree, plan, encode_message(worktree, text, "replace"))


def redo(worktree: WorkTree, edit_id: str | None = None) -> UndoResult:
    """Redo an edit, by default the last one that was undone. Raises the same errors as `undo`.

    If HEAD is at the parent of the edit's old commit, the branch moves forward to that commit; otherwise a new commit
    is made with its message.
    """
    plan = _read(worktree, edit_id, "redo")
    edit = plan.edit
    if edit.no_commit:
        return _without_commit(worktree, plan)
    message = os.fsencode(plan.record.message or "")
    if edit.commit and has_object(worktree, edit.commit):
        if head_commit(worktree) == edit.parent:
            made = read_commit(worktree, edit.commit)
            return _move_branch(worktree, plan, made)
        # the final message, including changes by hooks and the user
        text = git(worktree.top, "log", "-n1", "--format=%B", "--encoding=UTF-8", edit.commit)
        message = encode_message(worktree, text.decode(errors="replace"), "replace")
    return _with_commit(worktree, plan, message)


class _Undo(NamedTuple):
    """What to undo or redo (`event`), and the changes to the present files."""

    event: str
    edit: Edit
    record: JournalRecord
    changes: tuple[FileChange, ...]


def _read(worktree: WorkTree, edit_id: str | None, event: str) -> _Undo:
    """What to undo or redo, without the changes made already. Raises Refused for later changes on the same lines."""
    undo = event == "undo"
    edit = find_edit(worktree, edit_id, undone=not undo)
    if not edit.no_commit:
        refuse_operation(worktree, offer=False)
    record = edit_record(worktree, edit)
    changes: list[FileChange] = []
    steps = {step.path: step for step in record.steps}
    for new_path, old_path in _renames(record).items():
        old, new = steps.pop(old_path).old, steps.pop(new_path).new
        path, before, target, after = (
            (new_path, new, old_path, old) if undo else (old_path, old, new_path, new)
        )
        current, occupied = read_content(worktree.top, path), read_content(worktree.top, target) is not None
        if current is None and occupied:
            continue  # it is done already
        if current is None or occupied:
            problem = f"{path} was deleted" if current is None else f"{target} exists again"
            raise Refused(f"{problem}: resolve this by hand, or use `git revert`")
        changes.append(_change(worktree, path, current, (before, after), target))
    for step in steps.values():
        before, after = (step.new, step.old) if undo else (step.old, step.new)
        current = read_content(worktree.top, step.path)
        change = _change(worktree, step.path, current, (before, after))
        if not change.is_noop:
            changes.append(change)
    return _Undo(event, edit, record, tuple(changes))


def _without_commit(worktree: WorkTree, plan: _Undo) -> UndoResult:
    options, edit = Options(no_commit=True), plan.edit
    with Transaction(worktree, plan.changes, options, edit.id, event=plan.event) as transaction:
        transaction.write()
        transaction.keep()
    return UndoResult(edit, None, False, edit.paths)


def _with_commit(worktree: WorkTree, plan: _Undo, message: bytes) -> UndoResult:
    if not plan.changes:
        raise NothingDone(f"the {plan.event} would not change any file; choose another edit")
    with Transaction(worktree, plan.changes, edit_id=plan.edit.id, event=plan.event) as transaction:
        transaction.write()
        result = transaction.commit(message, at_once=True)
    for sentence in (*result.notes, *restored_notes(result.restored)):
        to_stderr(sentence)
    return UndoResult(plan.edit, result.commit, False, plan.edit.paths)


def _move_branch(worktree: WorkTree, plan: _Undo, made: Commit) -> UndoResult:
    """Move the branch from the commit `made` to its parent, or back to it."""
    edit, renamed = plan.edit, _renames(plan.record)
    # without the paths that hooks have changed in the commit: the record does not have their index entries
    planned = [
        path for path in plan.record.planned if path.commit == made.changed.get(path.path, path.in_head)
    ]
    if plan.event == "undo":
        ends: tuple[str | None, str] = (made.oid, made.parent or "")
        was, becomes = made.changed, made.was
        renamed = {old: new for new, old in renamed.items()}
        staged = {path.path: (path.stage, path.staged_here) for path in planned}
    else:
        ends = (edit.parent, made.oid)
        was, becomes = made.was, made.changed
        staged = {path.path: (path.staged_here, path.stage) for path in planned}
    bits = {path.path: path.bits for path in plan.record.planned}
    entries = partial(
        _plan_move, worktree, was=was, becomes=becomes, renamed=renamed, staged=staged, bits=bits
    )
    with MoveTransaction(worktree, plan.changes, plan.event, edit.id, ends=ends, planned=entries) as move:
        move.write()
        move.move()
    return UndoResult(edit, ends[1] or None, True, edit.paths)


def _renames(record: JournalRecord) -> dict[str, str]:
    """Old paths by new path. An edit without a commit has only steps: a new file followed by a deletion."""
    if record.planned:
        return {planned.path: planned.renamed for planned in record.planned if planned.renamed}
    return {
        made.path: deleted.path
        for made, deleted in pairwise(record.steps)
        if made.old is None and made.new is not None and deleted.old is not None and deleted.new is None
    }


def _change(
    worktree: WorkTree,
    path: str,
    current: Content | None,
    sides: tuple[Content | None, Content | None],
    target: str | None = None,
) -> FileChange:
    """The change of `path`, now `current`, that turns the first of `sides` into the second and keeps the rest; it
    becomes `target`. Raises Refused on a conflict."""
    before, after = sides
    content = merge_content(worktree, current, before, after)
    if isinstance(content, Conflict):
        if any(side is None or side.is_link for side in (current, before, after)):
            raise Refused(f"{path} has changed since the edit: resolve this by hand, or use `git revert`")
        where = f" ({lines_text(content.lines)} before those changes)" if content.lines else ""
        raise Refused(f"{path} has later changes on the same lines{where}: resolve them by hand")
    return FileChange(path if current else None, target or path if content else None, current, content)


Planned = Callable[[Status], Iterator[PlannedPath]]


class MoveTransaction(BaseTransaction):
    """A transaction that writes the files, then moves HEAD's branch from `ends[0]` to `ends[1]`.

    If both are equal, only the index changes. `planned` returns the index entries to change.
    """

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        event: str,
        edit_id: str,
        *,
        ends: tuple[str | None, str],
        planned: Planned,
    ) -> None:
        self._start, self._target = ends
        super().__init__(worktree, changes, event, edit_id, moves_to=self._target)
        self._changes_head = self._target != (self._start or "")
        self._planned = planned

    def _make_plan(self, status: Status) -> CommitPlan:
        if status.head != self._start:
            raise Busy("another program moved HEAD: check `git log` and try again")
        return CommitPlan(tuple(self._planned(status)))

    def move(self) -> None:
        """Move the branch, then update the index. Raises Busy if another program moved HEAD."""
        worktree = self._worktree
        self._refuse_moved(head_commit(worktree), current_branch(worktree))
        self._open.store(state=COMMITTING, commit=self._target or None, started=time.time_ns())
        record = self._open.record
        with defer_signals():
            if self._changes_head:
                target = ("HEAD", self._target) if self._target else ("-d", "HEAD")
                reason = f"repoagent: {record.event} {record.id}"
                try:
                    git(worktree.top, "update-ref", "-m", reason, *target, record.head or "", read_only=False)
                except GitError as error:
                    if error.returncode < 0:  # it was killed, possibly after the update
                        self._open.remove_stale_ref_locks()
                    if (head_commit(worktree) or "") != self._target:
                        raise Busy(f"cannot update the branch ({error.stderr}): try again") from error
            self._end()

    def _finish(self, made: Commit | None) -> None:
        if self._open.record.state == COMMITTING and (head_commit(self._worktree) or "") == self._target:
            update_user_index(self._open)
            archive_edit(self._open)
        else:
            super()._finish(made)


def _plan_move(
    worktree: WorkTree,
    status: Status,
    *,
    was: Mapping[str, Entry | None],
    becomes: Mapping[str, Entry | None],
    renamed: Mapping[str, str],
    staged: Mapping[str, tuple[Entry | None, Entry | None]],
    bits: Mapping[str, Staged | None],
) -> Iterator[PlannedPath]:
    """The index entries for moving HEAD, where `was` becomes `becomes`. `renamed` has old paths by new path; `staged`
    the index entries that the edit left and to restore, `bits` the flags. Raises Refused for other staged changes on
    the same lines."""
    paths = [*was, *(path for path in staged if path not in was)]
    versions = EntryVersions(worktree, status, read_entries(worktree, paths))
    as_left = all(versions.staged(path) == left for path, (left, _) in staged.items())
    for path in paths:
        current = versions.staged(path)
        old, new = was.get(path), becomes.get(path)
        if path not in was:
            old = new = versions.in_head(path)
        stage: Entry | Conflict | None = current
        source = renamed.get(path, path)
        before = staged[path][1] if path in staged else None
        # a blob that was only staged may have been removed
        if as_left and path in staged and (before is None or has_object(worktree, before.oid)):
            stage = before
        elif old == new:
            pass
        elif path in renamed.values():
            stage = None
        elif source != path and current is not None:
            stage = Conflict()
        else:  # other staged work follows a rename
            stage = merge_entry(worktree, versions.staged(source), was[source], becomes[path])
        if isinstance(stage, Conflict):
            raise Refused(
                f"{path} has other staged changes{conflict_lines(stage)}: commit, stash or unstage them first"
            )
        flags = versions.index.get(path) or bits.get(path)
        yield PlannedPath(path, old, current, old, new, new, stage, flags)


def unstage_changes(
    worktree: WorkTree, changes: Sequence[FileChange], steps: Sequence[FileStep], event: str, edit_id: str
) -> bool:
    """Write `changes`, which revert `steps`, and unstage the parts of `steps` that are staged, even during a merge.

    Returns False, with nothing done, if no part is staged. Raises what a Transaction raises.
    """
    planned = partial(_plan_unstage, worktree, steps=steps)
    if not any(planned(read_status(worktree))):
        return False
    head = head_commit(worktree)
    ends = head, head or ""
    with MoveTransaction(worktree, changes, event, edit_id, ends=ends, planned=planned) as move:
        move.write()
        move.move()
    return True


def _plan_unstage(worktree: WorkTree, status: Status, steps: Sequence[FileStep]) -> Iterator[PlannedPath]:
    changed = {step.path: step for step in steps if step.path in status.changed}
    index = read_entries(worktree, changed) if changed else {}
    versions = EntryVersions(worktree, status, index)
    for path, step in changed.items():
        head, staged = versions.in_head(path), versions.staged(path)
        intended = status.changed[path].intent_to_add and step.old is None  # a new file, by `git add -N`
        if staged == head and not intended:
            continue
        before, after = versions.blob(path, step.old), versions.blob(path, step.new)
        without = merge_entry(worktree, head, after, before)
        if without != head and not isinstance(without, Conflict):
            continue
        stage = merge_entry(worktree, staged, after, before)
        if isinstance(stage, Conflict):  # the user has staged something else on these lines
            continue
        if stage != staged or intended:
            yield PlannedPath(path, head, staged, head, head, head, stage, index.get(path))
