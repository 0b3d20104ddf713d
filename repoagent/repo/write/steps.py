"""The writes of a transaction: one file at a time, each of which can be taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.repo.change import REGULAR, FileChange
from repoagent.repo.content import Content, look, same, torn
from repoagent.repo.write.failures import Moved
from repoagent.repo.write.metadata import permissions_of
from repoagent.repo.write.put_file import missing_folders, put
from repoagent.repo.write.replace import SECOND


@dataclass(frozen=True)
class Step:
    """One file of the work tree that is written: it holds `old`, then `new`. `temporary` is a name beside it
    that is ours while it is written; `permissions` are for where it has to be made (None: as the umask says).

    Of a change that is in the work tree already `old` and `new` are what is there, `was` is what was before it, and
    `done` what it has left: what is there may hold more. Where `new` is what was in the file after hooks, and may be
    a save of the user's, `wrote` is what the step wrote itself.
    """

    path: str
    old: Content | None
    new: Content | None
    temporary: str
    permissions: int | None = None
    was: Content | None = None
    done: Content | None = None
    wrote: Content | None = None


def steps_of(changes: Sequence[FileChange], edit_id: str) -> tuple[Step, ...]:
    """The writes of the changes; a rename is a new file and a deletion."""
    sides: list[tuple[str, Content | None, Content | None]] = []
    for change in changes:
        old = None if change.before is None else Content(change.before, change.old_mode or REGULAR)
        new = None if change.after is None else Content(change.after, change.mode or REGULAR)
        if change.path is not None:
            sides.append((change.path, None if change.is_rename else old, new))
        if change.old_path is not None and change.old_path != change.path:
            sides.append((change.old_path, old, None))
    return tuple(Step(*side, f".repoagent-{edit_id}-{n}") for n, side in enumerate(sides))


def steps_in_place(
    changes: Sequence[FileChange], found: Mapping[str, Content | None], edit_id: str
) -> tuple[Step, ...]:
    """The steps of changes that are in the work tree already, with what is `found` there: they write nothing."""
    done = ((step, found.get(step.path, step.new)) for step in steps_of(changes, edit_id))
    return tuple(replace(step, was=step.old, done=step.new, old=here, new=here) for step, here in done)


def with_permissions(top: Path, steps: Sequence[Step], changes: Sequence[FileChange]) -> tuple[Step, ...]:
    """The steps with the permissions of the files that are renamed or deleted."""
    renamed = {
        change.path: change.old_path
        for change in changes
        if change.is_rename and change.mode == change.old_mode
    }
    return tuple(
        replace(step, permissions=permissions_of(top, renamed.get(step.path) or step.path))
        if step.path in renamed or step.new is None
        else step
        for step in steps
    )


def with_after(change: FileChange, steps: Sequence[Step]) -> FileChange:
    """The change with what its step writes now, or has left, as its result."""
    new = next((step.done or step.new for step in steps if step.path == change.path), None)
    return change if new is None else replace(change, after=new.data)


def refuse_moved(top: Path, steps: Sequence[Step]) -> None:
    """Raises Moved when a file is not what its step expects."""
    found = {step.path: look(top, step.path) for step in steps}
    moved = {step.path: found[step.path] for step in steps if not same(found[step.path], step.old)}
    if moved:
        raise Moved(moved)


def new_folders(top: Path, steps: Sequence[Step]) -> tuple[str, ...]:
    """The folders that the steps will have made, inner ones first."""
    found = [folder for step in steps if step.new is not None for folder in missing_folders(top, step.path)]
    return tuple(sorted(set(found), key=len, reverse=True))


def take(top: Path, step: Step) -> None:
    """Write the file. Raises Moved, with the file as it is, when it is not what the step expects."""
    put(top, step.path, step.old, step.new, step.temporary, permissions=step.permissions)


def take_back(top: Path, step: Step) -> bool:
    """Put the file back to `old` if it holds just what the step wrote; False if somebody else wrote it.

    A save of somebody else that a kill has left beside our bytes, which had taken its place, takes theirs.
    """
    theirs = _clear_away(top, step)
    found = look(top, step.path)
    if theirs is not None and same(found, step.new) and found is not None:
        theirs.replace(top / step.path)
        return False
    changes_mode = step.old is not None and step.new is not None and step.old.mode != step.new.mode
    if same(found, step.old) and not (changes_mode and found == step.new):
        return True
    if not same(found, step.new) and not torn(found, step.old, step.new):
        return False
    try:
        put(top, step.path, found, step.old, step.temporary, permissions=step.permissions)
    except Moved:
        return False
    return True


def _clear_away(top: Path, step: Step) -> Path | None:
    """Remove what a kill left of ours beside the file; what we do not know is somebody's save, and is returned."""
    theirs = None
    for name in (step.temporary, step.temporary + SECOND):
        path = (Path(step.path).parent / name).as_posix()
        found = look(top, path)
        if found is None:
            continue
        unfinished = step.new is not None and step.new.data.startswith(found.data)
        if same(found, step.old) or unfinished:
            (top / path).unlink()
        else:
            theirs = top / path
    return theirs
