"""What the files of an edit become when it is taken back or made again, with all that was done to them since."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from repoagent.errors import Refused
from repoagent.repo.change import FileChange
from repoagent.repo.content import Content, look
from repoagent.repo.merge import Conflict, carry, say_lines
from repoagent.repo.transaction.record import Record
from repoagent.repo.worktree import WorkTree


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
        missing = f"{path} is gone" if now is None else f"there is a file {to} now"
        raise Refused(f"{missing}: put it right by hand, or use `git revert`")
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
        raise Refused(f"{path} is not what the edit left: put it right by hand, or use `git revert`")
    where = f" ({say_lines(target.lines)} of what it was then)" if target.lines else ""
    raise Refused(f"{path} has later changes on the same lines{where}: put them right by hand")
