"""Undo and redo an edit: only its own changes are reverted or applied again, in files and index; other work stays.

Where the commit of the edit is the tip of its branch and on no other ref, the branch moves to the parent
(`MoveTransaction`). Otherwise a new commit reverts it. An edit without a commit is reverted in the files and unstaged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from repoagent.dataclass import dataclass
from repoagent.errors import Busy, NothingDone, Refused
from repoagent.git.facts import current_branch
from repoagent.git.file_writer import Step
from repoagent.git.files import Content, FileChange, look
from repoagent.git.index import Entry, Status, read_entries, read_status
from repoagent.git.merge import Conflict, carry, lines_text, project
from repoagent.git.objects import Commit, has_object, head_commit, read_commit
from repoagent.git.process import GitError, git, uninterrupted
from repoagent.git.transaction.commit import OnOutput, encode
from repoagent.git.transaction.finish import archive
from repoagent.git.transaction.journal import COMMITTING, PlannedPath, Record
from repoagent.git.transaction.other_files import update_user_index
from repoagent.git.transaction.plan import Plan, Versions, conflict_lines, refuse_operation
from repoagent.git.transaction.results import Options, restored_notes
from repoagent.git.transaction.transaction import BaseTransaction, Transaction
from repoagent.git.undo_log import Edit, commit_of, edit_record, find_edit, is_as_stored, is_shared, is_whole
from repoagent.git.worktree import WorkTree
from repoagent.storage.layout import to_stderr

Changes = tuple[FileChange, ...]


@dataclass(frozen=True)
class UndoResult:
    """`commit` is the commit of HEAD now (None: no commit). With `moved` the branch was set to it; otherwise it is a
    new commit, or the edit had no commit."""

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
    """Undo an edit, by default the last one that is not undone.

    If its commit is the tip of the branch and on no other ref, the branch moves back; otherwise a new commit reverts
    it (with `options`). Raises NothingDone if there is no edit, Refused if later changes are on the same lines or the
    commit is not in this branch, and what a Transaction raises.
    """
    edit = find_edit(worktree, edit_id, undone=False)
    if not edit.no_commit:
        refuse_operation(worktree, offer=False)
    record = edit_record(worktree, edit)
    changes = tuple(_changes(worktree, record, undo=True))
    if edit.no_commit:
        if unstage_changes(worktree, changes, record.steps, "undo", edit.id):
            return UndoResult(edit, None, False, edit.paths)
        return _without_commit(worktree, edit, changes, "undo")
    commit = commit_of(worktree, edit)
    whole = is_whole(worktree, edit, commit)
    made = read_commit(worktree, commit)
    is_tip = whole and commit == head_commit(worktree)
    if is_tip and is_as_stored(worktree, made) and not is_shared(worktree, commit):
        renamed = {old: new for new, old in _renames(record).items()}
        staged = {planned.path: (planned.stage, planned.staged_here) for planned in record.planned}
        planned = partial(
            _plan_move, worktree, was=made.changed, becomes=made.was, renamed=renamed, staged=staged
        )
        return _move_head(worktree, edit, changes, "undo", ends=(commit, made.parent or ""), planned=planned)
    # in the words of `git revert`
    subject = os.fsdecode(git(worktree.top, "log", "-n1", "--format=%s", "--encoding=UTF-8", commit)).strip()
    part = "" if whole else f"the edit {edit.id} in "
    text = f'Revert "{subject}"\n\nThis reverts {part}commit {commit}.\n\nRepoagent-Undo: {edit.id}\n'
    transaction = Transaction(worktree, _refuse_empty(changes), options, edit.id, event="undo", listen=listen)
    return _with_commit(edit, transaction, encode(worktree, text, "replace"))


def redo(
    worktree: WorkTree,
    edit_id: str | None = None,
    options: Options | None = None,
    *,
    listen: OnOutput | None = None,
) -> UndoResult:
    """Redo an edit, by default the last one that was undone. Raises the same errors as `undo`.

    If HEAD is at the parent of the edit's old commit, the branch moves forward to it; otherwise a new commit is made
    with its message.
    """
    edit = find_edit(worktree, edit_id, undone=True)
    if not edit.no_commit:
        refuse_operation(worktree, offer=False)
    record = edit_record(worktree, edit)
    changes = tuple(_changes(worktree, record, undo=False))
    if edit.no_commit:
        return _without_commit(worktree, edit, changes, "redo")
    is_stored = edit.commit is not None and has_object(worktree, edit.commit)
    if edit.commit and is_stored and head_commit(worktree) == edit.parent:
        made = read_commit(worktree, edit.commit)
        staged = {planned.path: (planned.staged_here, planned.stage) for planned in record.planned}
        renamed = _renames(record)
        planned = partial(
            _plan_move, worktree, was=made.was, becomes=made.changed, renamed=renamed, staged=staged
        )
        return _move_head(worktree, edit, changes, "redo", ends=(edit.parent, made.oid), planned=planned)
    message = os.fsencode(record.message or "")
    if edit.commit and is_stored:  # the final message, including changes by hooks and the user
        text = git(worktree.top, "log", "-n1", "--format=%B", "--encoding=UTF-8", edit.commit)
        message = encode(worktree, text.decode(errors="replace"), "replace")
    transaction = Transaction(worktree, _refuse_empty(changes), options, edit.id, event="redo", listen=listen)
    return _with_commit(edit, transaction, message)


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


def _changes(worktree: WorkTree, record: Record, *, undo: bool) -> Iterator[FileChange]:
    """The changes to the present files that undo or redo the edit, without those that are made already. Raises Refused
    if later changes are on the same lines."""
    steps = {step.path: step for step in record.steps}
    for new_path, old_path in _renames(record).items():
        old, new = steps.pop(old_path).old, steps.pop(new_path).new
        path, before, target, after = (
            (new_path, new, old_path, old) if undo else (old_path, old, new_path, new)
        )
        current, occupied = look(worktree.top, path), look(worktree.top, target) is not None
        if current is None and occupied:
            continue  # it is done already
        if current is None or occupied:
            problem = f"{path} was deleted" if current is None else f"{target} exists again"
            raise Refused(f"{problem}: fix it by hand, or use `git revert`")
        yield _change(path, current, target, _carry(worktree, path, current, before, after))
    for step in steps.values():
        before, after = (step.new, step.old) if undo else (step.old, step.new)
        current = look(worktree.top, step.path)
        content = _carry(worktree, step.path, current, before, after)
        if current != content:
            yield _change(step.path, current, step.path, content)


def _renames(record: Record) -> dict[str, str]:
    """Old paths by new path of the files that the edit renamed. An edit without a commit records only its steps, where
    a rename is a new file followed by a deletion."""
    if record.planned:
        return {planned.path: planned.renamed for planned in record.planned if planned.renamed}
    return {
        made.path: deleted.path
        for made, deleted in pairwise(record.steps)
        if made.old is None and made.new is not None and deleted.old is not None and deleted.new is None
    }


def _change(path: str, current: Content | None, target: str, content: Content | None) -> FileChange:
    return FileChange(
        path if current else None,
        target if content else None,
        current.data if current else None,
        content.data if content else None,
        current.mode if current else None,
        content.mode if content else None,
    )


def _carry(
    worktree: WorkTree, path: str, current: Content | None, before: Content | None, after: Content | None
) -> Content | None:
    """The new content of the file, with all later changes kept. Raises Refused on a conflict."""
    content = carry(worktree, current, before, after)
    if not isinstance(content, Conflict):
        return content
    if any(side is None or side.is_link for side in (current, before, after)):
        raise Refused(f"{path} changed after the edit: fix it by hand, or use `git revert`")
    where = f" ({lines_text(content.lines)} of that version)" if content.lines else ""
    raise Refused(f"{path} has later changes on the same lines{where}: resolve them by hand")


Planned = Callable[[Status], Iterator[PlannedPath]]


def _move_head(
    worktree: WorkTree,
    edit: Edit,
    changes: Changes,
    event: str,
    *,
    ends: tuple[str | None, str],
    planned: Planned,
) -> UndoResult:
    with MoveTransaction(worktree, changes, event, edit.id, ends, planned=planned) as transaction:
        transaction.write()
        transaction.move()
    return UndoResult(edit, ends[1] or None, True, edit.paths)


class MoveTransaction(BaseTransaction):
    """Write the files, then move the branch of HEAD from `ends[0]` to `ends[1]` (if equal, only the index changes).

    `planned` returns the index entries to change.
    """

    def __init__(
        self,
        worktree: WorkTree,
        changes: Sequence[FileChange],
        event: str,
        edit_id: str,
        ends: tuple[str | None, str],
        *,
        planned: Planned,
    ) -> None:
        self._start, self._target = ends
        super().__init__(worktree, changes, event, edit_id, moves_to=self._target)
        self._changes_head = self._target != (self._start or "")
        self._planned = planned

    def _make_plan(self, status: Status) -> Plan:
        if status.head != self._start:
            raise Busy("another program moved HEAD: check `git log` and try again")
        return Plan(status.head, status.branch, tuple(self._planned(status)), tuple(status.changed))

    def move(self) -> None:
        """Move the branch, then update the index. Raises Busy if another program has moved HEAD."""
        worktree = self._worktree
        self._refuse_moved(head_commit(worktree), current_branch(worktree))
        self._open.store(state=COMMITTING, commit=self._target or None, started=time.time_ns())
        record = self._open.record
        with uninterrupted():
            if self._changes_head:
                target = ("HEAD", self._target) if self._target else ("-d", "HEAD")
                reason = f"repoagent: {record.event} {record.id}"
                try:
                    git(worktree.top, "update-ref", "-m", reason, *target, record.head or "", read_only=False)
                except GitError as error:
                    if error.returncode < 0:  # it was killed, possibly after the update
                        self._open.remove_stale_ref_locks()
                    if (head_commit(worktree) or "") != self._target:
                        raise Busy(f"cannot update the branch, try again: {error.stderr}") from error
            self._end()

    def _finish(self, made: Commit | None) -> None:
        if self._open.record.state == COMMITTING and (head_commit(self._worktree) or "") == self._target:
            update_user_index(self._open)
            archive(self._open)
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
) -> Iterator[PlannedPath]:
    """The index entries for a move of HEAD, in which the entries `was` become `becomes`. Raises Refused if something
    else is staged on the same lines.

    `renamed` has the old path of each renamed path. `staged` has, by path, the index entry that the edit left, and the
    one to restore if all are unchanged since.
    """
    paths = [*was, *(path for path in staged if path not in was)]
    versions = Versions(worktree, status, read_entries(worktree, paths))
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
            stage = project(worktree, versions.staged(source), was[source], becomes[path])
        if isinstance(stage, Conflict):
            raise Refused(
                f"{path} has other staged changes{conflict_lines(stage)}: commit, stash or unstage them first"
            )
        yield PlannedPath(path, old, current, old, new, new, stage, versions.index.get(path))


def unstage_changes(
    worktree: WorkTree, changes: Sequence[FileChange], steps: Sequence[Step], event: str, edit_id: str
) -> bool:
    """Write `changes`, which revert `steps`, and unstage what is staged of those steps; all else stays. This also works
    during a merge, since HEAD does not move. Returns False, with nothing done, if none of them is staged.

    Other staged work on the same lines stays, too. Raises what a Transaction raises.
    """
    planned = partial(_plan_unstage, worktree, steps=steps)
    if not any(planned(read_status(worktree))):
        return False
    head = head_commit(worktree)
    ends = head, head or ""
    with MoveTransaction(worktree, changes, event, edit_id, ends, planned=planned) as transaction:
        transaction.write()
        transaction.move()
    return True


def _plan_unstage(worktree: WorkTree, status: Status, steps: Sequence[Step]) -> Iterator[PlannedPath]:
    """The index entries to change. Parts of a step that HEAD has too are committed, not staged."""
    changed = {step.path: step for step in steps if step.path in status.changed}
    index = read_entries(worktree, changed) if changed else {}
    versions = Versions(worktree, status, index)
    for path, step in changed.items():
        head, staged = versions.in_head(path), versions.staged(path)
        intended = status.changed[path].intent_to_add and step.old is None  # a new file, by `git add -N`
        if staged == head and not intended:
            continue
        before, after = versions.blob(path, step.old), versions.blob(path, step.new)
        without = project(worktree, head, after, before)
        if without != head and not isinstance(without, Conflict):
            continue
        stage = project(worktree, staged, after, before)
        if isinstance(stage, Conflict):  # the user has staged something else on these lines
            continue
        if stage != staged or intended:
            yield PlannedPath(path, head, staged, head, head, head, stage, index.get(path))
