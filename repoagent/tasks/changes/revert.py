"""Undo changes of a run without the rest of each file, and the tools `keep` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.errors import RepoagentError
from repoagent.git.file_writer import Moved
from repoagent.git.files import FileChange, look
from repoagent.git.merge import Conflict, lines_text
from repoagent.storage.atomic import write_whole
from repoagent.tasks.changes.change_set import (
    ChangeSet,
    Lines,
    before_of,
    change_between,
    paths_of,
    revert_lines,
)
from repoagent.tasks.changes.snapshot import free_folder

Write = Callable[[Sequence[FileChange]], None]
Overlaps = Mapping[str, Lines]  # files in which someone changed the same lines, with these lines


def revert(change_set: ChangeSet, paths: Sequence[str], write: Write) -> Overlaps:
    """Undo the run's changes of `paths`; what others did to the files stays. Files in which they changed the same lines
    are left as they are and returned. If `write` raises, nothing is changed."""
    change_set.drop_vanished()  # a kill came between the files and the change set
    reverse: dict[str, FileChange] = {}
    overlaps: dict[str, Lines] = {}
    top = change_set.worktree.top
    for change in _changes_of(change_set, paths):
        current = look(top, change.name)
        if change.name in change_set.overlapping:
            overlaps[change.name] = change_set.overlapping[change.name]
        elif change.is_rename and look(top, change.old_path or "") is not None:
            overlaps[change.name] = ()
        elif isinstance(before := revert_lines(change_set.worktree, change, current), Conflict):
            overlaps[change.name] = before.version or before.lines
        else:
            reverse[change.name] = change_between(change.path, current, change.old_path, before)
    write([change for change in reverse.values() if not _is_noop(change)])
    change_set.drop(reverse)
    return overlaps


def revert_whole(change_set: ChangeSet, paths: Sequence[str], write: Write) -> tuple[Path, ...]:
    """Make files what they were before the run, without anything that others did since. Returns the copies of their
    present content. If `write` raises, no file is changed."""
    changes = _changes_of(change_set, paths)
    reverse, copies = [], []
    folder = free_folder(change_set.folder, "backup")
    for change in changes:
        for path in dict.fromkeys(filter(None, (change.old_path, change.path))):
            current = look(change_set.worktree.top, path)
            before = before_of(change) if path == change.old_path else None
            reverse.append(change_between(path, current, path, before))
            if current is not None:
                write_whole(folder / path, current.data)
                copies.append(folder / path)
    write([change for change in reverse if not _is_noop(change)])
    change_set.drop([change.name for change in changes])
    return tuple(copies)


def overlaps_text(overlaps: Overlaps) -> str:
    """ "f.txt (line 3), g.txt", for a message."""
    return ", ".join(path + (f" ({lines_text(lines)})" if lines else "") for path, lines in overlaps.items())


def _changes_of(change_set: ChangeSet, paths: Sequence[str]) -> list[FileChange]:
    every = (*change_set.changes, *change_set.candidates)
    return [change for change in every if paths_of([change]).intersection(paths)]


def _is_noop(change: FileChange) -> bool:
    return (change.old_path, change.before, change.old_mode) == (change.path, change.after, change.mode)


def change_tools(change_set: ChangeSet, write: Write, withdraw: Callable[[str], str]) -> tuple[Tool, ...]:
    """`keep` and `restore`. `write` writes all changes to the work tree or none; `withdraw` drops the kept part of a
    refused edit if the path names that, and says so."""

    def keep(action: Action) -> Observation:
        path = _path(action)
        if path in paths_of(change_set.changes):
            return Observation("keep", f"{path} is already part of your change.")
        names = [change.name for change in change_set.candidates]
        below = [name for name in names if path and name.startswith(path.rstrip("/") + "/")]
        if not change_set.keep([path, *below]):
            known = f": {', '.join(names)}" if names else "."
            text = f"cannot keep {path}: no command created or changed it{known}"
            return Observation("keep", text, ok=False)
        files = f" ({len(below)} files)" if len(below) > 1 else ""
        return Observation("keep", f"{path}{files} is now part of your change.")

    def restore(action: Action) -> Observation:
        path = _path(action)
        if text := withdraw(path):
            return Observation("restore", text)
        if change_set.of(path) is None:
            return Observation("restore", f"You have not changed {path}.", ok=False)
        try:
            overlaps = revert(change_set, [path], write)
        except Moved:
            return Observation("restore", f"another program is writing {path}; try again.", ok=False)
        except RepoagentError as error:
            return Observation("restore", str(error), ok=False)
        if overlaps:
            text = f"{overlaps_text(overlaps)}: left unchanged, because the user has changed the same lines. "
            return Observation("restore", text + "Undo your change with an edit.", ok=False)
        return Observation("restore", f"{path} is restored to what it was before your change.")

    keep_text = '<keep path="FILE"/> adds a file or folder that a command created to your change.'
    restore_text = '<restore path="FILE"/> undoes all your changes to a file.'
    return Tool("keep", keep_text, keep), Tool("restore", restore_text, restore)


def _path(action: Action) -> str:
    return action.args.get("path", "").strip().removeprefix("./")
