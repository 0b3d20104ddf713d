"""A change of the run and what somebody else has done to the same file, told apart by three-way merges.

Who comes last stands on top. What stands on top of the run's change is somebody else's and nothing of the change;
only where the run has worked on top of theirs again, on the same lines, is there no telling.
"""

from __future__ import annotations

from dataclasses import replace

from repoagent.repo import FileChange, WorkTree
from repoagent.repo.change import SYMLINK
from repoagent.repo.content import Content, look, same
from repoagent.repo.merge import Conflict, merge

Lines = tuple[tuple[int, int], ...]


def after_of(change: FileChange) -> Content | None:
    """What the change has left at its path."""
    return None if change.after is None else Content(change.after, change.mode or "")


def before_of(change: FileChange) -> Content | None:
    """What it found."""
    return None if change.before is None else Content(change.before, change.old_mode or "")


def followed(
    worktree: WorkTree, earlier: FileChange, later: FileChange
) -> tuple[FileChange, FileChange] | Conflict:
    """Two changes of a file, one after the other, without what somebody else has done to it in between: that is in all
    sides of both, or in none. A Conflict where the later one works on it, with the lines."""
    found = before_of(later)
    if later.mode == later.old_mode and earlier.mode and not is_link(later):
        later = replace(later, mode=earlier.mode)  # another one since is somebody else's
    if found is None or same(found, after_of(earlier)):
        return earlier, later
    below = _without(worktree, earlier, found)
    if isinstance(below, bytes):
        return replace(earlier, before=below, after=found.data), later
    if found.is_link or is_link(earlier) or is_link(later) or later.after is None or earlier.after is None:
        return below
    above = merge(worktree, earlier.after, found.data, later.after, exact=True)
    if isinstance(above, Conflict):
        return above
    return earlier, replace(later, before=earlier.after, after=above)


def standing(worktree: WorkTree, change: FileChange, now: Content | None) -> FileChange | None:
    """What of the change is still in its file, that holds `now`; None for nothing.

    What somebody has taken back is not in it any more, where that can be told by lines; what they have done on top of
    it never was.
    """
    if (change.path is None) != (now is None):
        return None  # somebody has taken the file away, or has made it anew
    if now is None or same(now, after_of(change)):
        return change
    below = _without(worktree, change, now)
    if isinstance(below, Conflict) or change.before is None:
        return change
    left = merge(worktree, change.before, below, now.data, exact=True)
    if isinstance(left, Conflict):
        return change
    rest = replace(change, after=left)
    return None if is_nothing(rest) else rest


def without(worktree: WorkTree, change: FileChange, now: Content | None) -> Content | Conflict | None:
    """What the place of the file would hold without the change (None: no file), with all else that `now` holds."""
    before = before_of(change)
    if now is None or before is None or before.is_link:
        return before if now is None or same(now, after_of(change)) else Conflict()
    below = before.data if same(now, after_of(change)) else _without(worktree, change, now)
    if isinstance(below, Conflict):
        return below
    changed = change.mode != change.old_mode and now.mode == change.mode
    return Content(below, before.mode if changed else now.mode)


def theirs(worktree: WorkTree, change: FileChange) -> dict[str, Content | None]:
    """What is at the paths of the change that it has not left there."""
    sides = {change.path: after_of(change)} if change.path is not None else {}
    if change.old_path is not None and change.old_path != change.path:
        sides[change.old_path] = None
    found = {path: look(worktree.top, path) for path in sides}
    return {path: now for path, now in found.items() if not same(now, sides[path])}


def is_nothing(change: FileChange) -> bool:
    """Whether both sides are the same."""
    if change.before is None and change.after is None:
        return True
    unchanged = change.before == change.after and change.old_mode == change.mode
    return unchanged and change.old_path == change.path


def _without(worktree: WorkTree, change: FileChange, now: Content) -> bytes | Conflict:
    if now.is_link or is_link(change) or change.before is None or change.after is None:
        return Conflict()
    return merge(worktree, now.data, change.after, change.before, exact=True)


def is_link(change: FileChange) -> bool:
    """Whether a side of it is a symbolic link, which is not a matter of lines."""
    return SYMLINK in {change.old_mode, change.mode}
