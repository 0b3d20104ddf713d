"""Take an edit back, or make it again: only its own bytes move, in files and index, other work stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from repoagent.errors import NothingDone, Refused
from repoagent.repo.change import FileChange
from repoagent.repo.commit import Listen, Options, head, read_commit
from repoagent.repo.content import Content, look, same
from repoagent.repo.edits import Edit, edit_record, find_edit
from repoagent.repo.move import Move, Way
from repoagent.repo.project import Conflict, merge, say_lines
from repoagent.repo.record import Record
from repoagent.repo.run import git, git_output
from repoagent.repo.steps import Step
from repoagent.repo.transaction import Transaction
from repoagent.repo.worktree import WorkTree

# Refs that do not show a commit to anybody else.
_PRIVATE = ("refs/stash", "refs/worktree/", "refs/bisect/")
_SEARCHED = 1000  # commits looked through for an edit whose commit was rewritten


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
    record = edit_record(worktree, edit)
    changes = tuple(_changes(worktree, record, undo=True))
    if edit.no_commit:
        return _without_commit(worktree, edit, changes, "undo")
    commit = _find_commit(worktree, edit)
    if commit == head(worktree) and _same_change(worktree, edit, commit) and not _is_shared(worktree, commit):
        made = read_commit(worktree, commit)
        way = Way(made.parent or "", made.changed, made.was, "undo", edit.id)
        with Move(worktree, changes, way) as move:
            move.write()
            move.move()
        return UndoResult(edit, made.parent, True, edit.paths)
    transaction = Transaction(worktree, _some(changes), options, edit.id, event="undo", listen=listen)
    return _with_commit(edit, transaction, _revert_message(worktree, edit, commit))


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
    record = edit_record(worktree, edit)
    changes = tuple(_changes(worktree, record, undo=False))
    if edit.no_commit:
        return _without_commit(worktree, edit, changes, "redo")
    if edit.commit and head(worktree) == edit.parent and _exists(worktree, edit.commit):
        made = read_commit(worktree, edit.commit)
        way = Way(made.commit, made.was, made.changed, "redo", edit.id)
        with Move(worktree, changes, way) as move:
            move.write()
            move.move()
        return UndoResult(edit, made.commit, True, edit.paths)
    transaction = Transaction(worktree, _some(changes), options, edit.id, event="redo", listen=listen)
    return _with_commit(edit, transaction, record.message or "")


def _without_commit(worktree: WorkTree, edit: Edit, changes: Changes, event: str) -> UndoResult:
    with Transaction(worktree, changes, Options(no_commit=True), edit.id, event=event) as transaction:
        transaction.write()
        transaction.keep()
    return UndoResult(edit, None, False, edit.paths)


def _with_commit(edit: Edit, transaction: Transaction, message: str) -> UndoResult:
    with transaction:
        transaction.write()
        result = transaction.commit(os.fsencode(message))
    return UndoResult(edit, result.commit, False, edit.paths)


def _some(changes: Changes) -> Changes:
    if not changes:
        raise NothingDone("the files are in that state already: there is nothing to commit")
    return changes


def _changes(worktree: WorkTree, record: Record, *, undo: bool) -> Iterator[FileChange]:
    """The change of each file as it is now; nothing for one that is there already."""
    for step in record.steps:
        was, becomes = (step.new, step.old) if undo else (step.old, step.new)
        now = look(worktree.top, step.path)
        target = _carry(worktree, step, now, was, becomes)
        if now != target:
            yield FileChange(
                step.path if now else None,
                step.path if target else None,
                now.data if now else None,
                target.data if target else None,
                now.mode if now else None,
                target.mode if target else None,
            )


def _carry(
    worktree: WorkTree, step: Step, now: Content | None, was: Content | None, becomes: Content | None
) -> Content | None:
    """What the file is to be, with all that was done to it since."""
    if same(now, was) or same(now, becomes):
        data = becomes
    elif now is None or was is None or becomes is None or now.is_link or was.is_link or becomes.is_link:
        raise Refused(f"{step.path} is not what the edit left: put it right by hand, or use `git revert`")
    else:
        merged = merge(worktree.top, now.data, was.data, becomes.data)
        if isinstance(merged, Conflict):
            where = f" ({say_lines(merged.lines)} of what it was then)" if merged.lines else ""
            raise Refused(f"{step.path} has later changes on the same lines{where}: put them right by hand")
        data = Content(merged, now.mode)
    if data is None or now is None or was is None:
        return data
    # where the edit did not change the mode, it is as it is
    return Content(data.data, data.mode if data.mode != was.mode else now.mode)


def _find_commit(worktree: WorkTree, edit: Edit) -> str:
    """The commit of the edit in the history of HEAD, also after an amend or a rebase: its trailer tells."""
    if edit.commit:
        known = git_output(worktree.top, "merge-base", "--is-ancestor", edit.commit, "HEAD", ok=(0, 1, 128))
        if known.returncode == 0:
            return edit.commit
    out = git_output(
        worktree.top, "log", f"-n{_SEARCHED}", "--format=%H",
        "--extended-regexp", f"--grep=^Repoagent-Edit: {edit.id}$", "HEAD", ok=(0, 128),
    ).stdout  # fmt: skip
    found = out.decode().split()
    if not found:
        raise Refused(
            f"the commit of the edit {edit.id} is not in the history of this branch: switch to its branch"
        )
    return found[0]


def _same_change(worktree: WorkTree, edit: Edit, commit: str) -> bool:
    """Whether the commit holds just what the edit committed (it may have a new message or parent)."""
    if commit == edit.commit or edit.commit is None:
        return commit == edit.commit
    if not _exists(worktree, edit.commit):
        return False
    one, other = read_commit(worktree, commit), read_commit(worktree, edit.commit)
    return (one.changed, one.was) == (other.changed, other.was)


def _exists(worktree: WorkTree, commit: str) -> bool:
    return git_output(worktree.top, "cat-file", "-e", commit, ok=(0, 1, 128)).returncode == 0


def _is_shared(worktree: WorkTree, commit: str) -> bool:
    """Whether anything but the branch of HEAD has the commit: another branch, tag, remote, work tree."""
    mine = git_output(worktree.top, "symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).stdout.decode().strip()
    refs = git(worktree.top, "for-each-ref", "--format=%(refname)", f"--contains={commit}")
    if any(ref != mine and not ref.startswith(_PRIVATE) for ref in refs.decode(errors="replace").split()):
        return True
    listed = git(worktree.top, "worktree", "list", "--porcelain").decode(errors="replace").split("\n\n")
    others = [entry for entry in listed if f"worktree {worktree.top}\n" not in entry + "\n"]
    return any(f"HEAD {commit}\n" in entry + "\n" for entry in others)


def _revert_message(worktree: WorkTree, edit: Edit, commit: str) -> str:
    subject = os.fsdecode(git(worktree.top, "log", "-n1", "--format=%s", "--encoding=UTF-8", commit)).strip()
    return f'Revert "{subject}"\n\nThis reverts commit {commit}.\n\nRepoagent-Undo: {edit.id}\n'
