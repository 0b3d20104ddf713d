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
from repoagent.tasks.changes.change_set import ChangeSet, Lines, before_of, change_between, revert_lines

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
    reverse = []
    for change in changes:
        for path in dict.fromkeys(filter(None, (change.old_path, change.path))):
            before = before_of(change) if path == change.old_path else None
            reverse.append(change_between(path, look(change_set.worktree.top, path), path, before))
    number = 1
    while (folder := change_set.folder / f"backup-{number}").exists():
        number += 1
    copies = [
        (folder / one.old_path, one.before)
        for one in reverse
        if one.old_path is not None and one.before is not None
    ]
    for copy, data in copies:
        write_whole(copy, data)
    write([change for change in reverse if not _is_noop(change)])
    change_set.drop([change.name for change in changes])
    return tuple(copy for copy, _ in copies)


def overlaps_text(overlaps: Overlaps) -> str:
    """ "f.txt (line 3), g.txt", for a message."""
    return ", ".join(path + (f" ({lines_text(lines)})" if lines else "") for path, lines in overlaps.items())


def _changes_of(change_set: ChangeSet, paths: Sequence[str]) -> list[FileChange]:
    every = (*change_set.changes, *change_set.candidates)
    return [change for change in every if {change.path, change.old_path} & set(paths)]


def _is_noop(change: FileChange) -> bool:
    return (change.old_path, change.before, change.old_mode) == (change.path, change.after, change.mode)


def change_tools(change_set: ChangeSet, write: Write, withdraw: Callable[[str], str]) -> tuple[Tool, ...]:
    """`keep` and `restore`. `write` writes all changes to the work tree or none; `withdraw` drops the kept part of a
    refused edit if the path names that, and says so."""

    def keep(action: Action) -> Observation:
        path = _path(action)
        if any(path in (change.path, change.old_path) for change in change_set.changes):
            return Observation("keep", f"{path} is already part of your change.")
        folder = path.rstrip("/") + "/"
        below = [one.name for one in change_set.candidates if path and one.name.startswith(folder)]
        if not change_set.keep([path, *below]):
            known = ", ".join(change.name for change in change_set.candidates)
            text = f"cannot keep {path}: no command created or changed it" + (f": {known}" if known else ".")
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
