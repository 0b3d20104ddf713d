"""Take an edit back, or make it again: only its own bytes move, in files and index, other work stays."""

from __future__ import annotations

import os
from dataclasses import dataclass

from repoagent.errors import NothingDone, Refused
from repoagent.repo.change import FileChange
from repoagent.repo.commit import Listen, Made, Options, encode, head, read_commit
from repoagent.repo.edits import Edit, edit_record, find_edit
from repoagent.repo.index import Entry
from repoagent.repo.move import Move, Way
from repoagent.repo.plan import refuse_operation
from repoagent.repo.record import Planned, Record
from repoagent.repo.reverse import changes_of, renamed_by
from repoagent.repo.run import git, git_output
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
    if not edit.no_commit:
        refuse_operation(worktree, offer=False)
    record = edit_record(worktree, edit)
    changes = tuple(changes_of(worktree, record, undo=True))
    if edit.no_commit:
        return _without_commit(worktree, edit, changes, "undo")
    commit = _find_commit(worktree, edit)
    whole = _same_change(worktree, edit, commit)
    made = read_commit(worktree, commit)
    if (
        whole
        and commit == head(worktree)
        and _is_as_stored(worktree, made)
        and not _is_shared(worktree, commit)
    ):
        back = {old: new for new, old in renamed_by(record).items()}
        staged = {planned.path: (planned.stage, _staged_before(planned)) for planned in record.planned}
        way = Way(commit, made.parent or "", made.changed, made.was, back, staged)
        return _move(worktree, edit, changes, way, "undo")
    transaction = Transaction(worktree, _some(changes), options, edit.id, event="undo", listen=listen)
    return _with_commit(edit, transaction, _revert_message(worktree, edit, commit, whole=whole))


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
    if edit.commit and head(worktree) == edit.parent and _exists(worktree, edit.commit):
        made = read_commit(worktree, edit.commit)
        staged = {planned.path: (_staged_before(planned), planned.stage) for planned in record.planned}
        way = Way(edit.parent, made.commit, made.was, made.changed, renamed_by(record), staged)
        return _move(worktree, edit, changes, way, "redo")
    transaction = Transaction(worktree, _some(changes), options, edit.id, event="redo", listen=listen)
    return _with_commit(edit, transaction, _message_again(worktree, edit, record))


def _move(worktree: WorkTree, edit: Edit, changes: Changes, way: Way, event: str) -> UndoResult:
    with Move(worktree, changes, way, event, edit.id) as move:
        move.write()
        move.move()
    return UndoResult(edit, way.to or None, True, edit.paths)


def _staged_before(planned: Planned) -> Entry | None:
    """What the index had at this very path before the edit."""
    return None if planned.renamed else planned.staged


def _without_commit(worktree: WorkTree, edit: Edit, changes: Changes, event: str) -> UndoResult:
    with Transaction(worktree, changes, Options(no_commit=True), edit.id, event=event) as transaction:
        transaction.write()
        transaction.keep()
    return UndoResult(edit, None, False, edit.paths)


def _with_commit(edit: Edit, transaction: Transaction, message: bytes) -> UndoResult:
    with transaction:
        transaction.write()
        result = transaction.commit(message)
    return UndoResult(edit, result.commit, False, edit.paths)


def _some(changes: Changes) -> Changes:
    if not changes:
        raise NothingDone(
            "the files are in that state already, there is nothing to commit: name another edit"
        )
    return changes


def _find_commit(worktree: WorkTree, edit: Edit) -> str:
    """The commit of the edit in the history of HEAD, also after an amend or a rebase: its trailer tells, which
    `git merge --squash` indents."""
    if edit.commit and _contains(worktree, "HEAD", edit.commit):
        return edit.commit
    out = git_output(
        worktree.top, "log", f"-n{_SEARCHED}", "--format=%H",
        "--extended-regexp", f"--grep=^ *Repoagent-Edit: {edit.id}$", "HEAD", "--", ok=(0, 128),
    ).stdout  # fmt: skip
    found = out.decode().split()
    if not found:
        where = f" (it was made on {edit.branch})" if edit.branch else ""
        raise Refused(
            f"the commit of the edit {edit.id} is not in the history of this branch: switch to its branch{where}, "
            "or name another edit"
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
    heads = [line[5:] for entry in others for line in entry.splitlines() if line.startswith("HEAD ")]
    return any(_contains(worktree, other, commit) for other in heads if other.strip("0"))


def _contains(worktree: WorkTree, tip: str, commit: str) -> bool:
    found = git_output(worktree.top, "merge-base", "--is-ancestor", commit, tip, ok=(0, 1, 128))
    return found.returncode == 0


def _is_as_stored(worktree: WorkTree, made: Made) -> bool:
    """Whether git shows the parents that are written in the commit: not where history is cut off (shallow),
    grafted or replaced, so that moving to a parent would be moving to somewhere else."""
    raw = git(worktree.top, "cat-file", "commit", made.commit, env={"GIT_NO_REPLACE_OBJECTS": "1"})
    lines = raw.partition(b"\n\n")[0].splitlines()
    return [line[7:].decode() for line in lines if line.startswith(b"parent ")] == list(made.parents)


def _revert_message(worktree: WorkTree, edit: Edit, commit: str, *, whole: bool) -> bytes:
    subject = os.fsdecode(git(worktree.top, "log", "-n1", "--format=%s", "--encoding=UTF-8", commit)).strip()
    what = "" if whole else f"the edit {edit.id} in "
    text = f'Revert "{subject}"\n\nThis reverts {what}commit {commit}.\n\nRepoagent-Undo: {edit.id}\n'
    return encode(worktree, text, "replace")


def _message_again(worktree: WorkTree, edit: Edit, record: Record) -> bytes:
    """The message of the commit as it was in the end, with what hooks and people had made of it."""
    if edit.commit and _exists(worktree, edit.commit):
        text = git(worktree.top, "log", "-n1", "--format=%B", "--encoding=UTF-8", edit.commit)
        return encode(worktree, text.decode(errors="replace"), "replace")
    return os.fsencode(record.message or "")
