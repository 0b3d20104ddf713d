"""Undo changes of a run without the rest of each file, and the tools `keep` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.errors import RepoagentError
from repoagent.git.file_writer import Moved
from repoagent.git.files import Content, FileChange, look
from repoagent.git.merge import Conflict, lines_text
from repoagent.storage.atomic import write_whole
from repoagent.tasks.changes.change_set import ChangeSet, Lines, before_of, without

Write = Callable[[Sequence[FileChange]], None]
Left = Mapping[str, Lines]


def put_back(change_set: ChangeSet, paths: Sequence[str], write: Write) -> Left:
    """Take the run's changes of `paths` back; what else was done to the files stays. The files that are left as they
    are, for somebody has changed the same lines, and which lines of them.

    Raises what `write` raises; nothing is changed then.
    """
    change_set.vanished()  # a kill came between the files and the ledger
    back: dict[str, FileChange] = {}
    left: dict[str, Lines] = {}
    for change in _about(change_set, paths):
        found = reverse(change_set, change)
        if isinstance(found, Conflict):
            left[change.name] = found.version or found.lines
        else:
            back[change.name] = found
    write([change for change in back.values() if not _is_there(change)])
    change_set.drop(back)
    return left


def put_back_whole(change_set: ChangeSet, paths: Sequence[str], write: Write) -> tuple[Path, ...]:
    """Make files what they were before the run, with nothing of what was done to them since. What they hold is copied
    before; the copies. Raises what `write` raises; no file is changed then."""
    wanted = list(_about(change_set, paths))
    back = [one for change in wanted for one in _whole(change_set, change)]
    folder = _free(change_set.folder / "backup")
    copies = []
    for change in back:
        if change.path is None and change.old_path is not None and change.before is not None:
            copies.append((change.old_path, change.before))
        elif change.before is not None and change.path is not None:
            copies.append((change.path, change.before))
    for path, data in copies:
        write_whole(folder / path, data)
    write([change for change in back if not _is_there(change)])
    change_set.drop([change.name for change in wanted])
    return tuple(folder / path for path, _ in copies)


def reverse(change_set: ChangeSet, change: FileChange) -> FileChange | Conflict:
    """The change that takes `change` back, from what its file holds now. A Conflict where somebody has changed the
    same lines since."""
    top = change_set.worktree.top
    if change.name in change_set.mixed:
        return Conflict(change_set.mixed[change.name])
    if change.is_rename and look(top, change.old_path or "") is not None:
        return Conflict()
    now = look(top, change.name)
    before = without(change_set.worktree, change, now)
    return before if isinstance(before, Conflict) else _change(change.path, now, change.old_path, before)


def said_of(left: Left) -> str:
    """ "f.txt (line 3), g.txt", for a message."""
    return ", ".join(path + (f" ({lines_text(lines)})" if lines else "") for path, lines in left.items())


def _about(change_set: ChangeSet, paths: Sequence[str]) -> Iterator[FileChange]:
    for change in (*change_set.changes, *change_set.candidates):
        if {change.path, change.old_path} & set(paths):
            yield change


def _whole(change_set: ChangeSet, change: FileChange) -> Iterator[FileChange]:
    for path in dict.fromkeys(filter(None, (change.old_path, change.path))):
        now = look(change_set.worktree.top, path)
        yield _change(path, now, path, before_of(change) if path == change.old_path else None)


def _change(path: str | None, now: Content | None, to: str | None, before: Content | None) -> FileChange:
    return FileChange(
        path if now is not None else None,
        to if before is not None else None,
        now.data if now is not None else None,
        before.data if before is not None else None,
        now.mode if now is not None else None,
        before.mode if before is not None else None,
    )


def _is_there(change: FileChange) -> bool:
    return (change.old_path, change.before, change.old_mode) == (change.path, change.after, change.mode)


def _free(folder: Path) -> Path:
    number = 1
    while (made := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return made


def change_tools(
    change_set: ChangeSet, write: Callable[[Sequence[FileChange]], None], withdraw: Callable[[str], str]
) -> tuple[Tool, ...]:
    """`keep` and `restore`. `write` writes changes to the work tree, all of them or none; `withdraw` drops what is kept
    of a refused edit where a path means that, and says so."""

    def keep(action: Action) -> Observation:
        path = _path(action)
        if any(
            path in (change.path, change.old_path) for change in change_set.changes
        ):  # before a kill, or twice
            return Observation("keep", f"{path} is already part of your change.")
        below = [
            one.name for one in change_set.candidates if path and one.name.startswith(path.rstrip("/") + "/")
        ]
        if not change_set.keep([path, *below]):
            known = ", ".join(change.name for change in change_set.candidates)
            return Observation(
                "keep",
                f"cannot keep {path}: no command created or changed it" + (f": {known}" if known else "."),
                ok=False,
            )
        files = f" ({len(below)} files)" if len(below) > 1 else ""
        return Observation("keep", f"{path}{files} is now part of your change.")

    def restore(action: Action) -> Observation:
        path = _path(action)
        if said := withdraw(path):
            return Observation("restore", said)
        if change_set.of(path) is None:
            return Observation("restore", f"You have not changed {path}.", ok=False)
        try:
            left = put_back(change_set, [path], write)
        except Moved:
            return Observation("restore", f"another program is writing {path}; try again.", ok=False)
        except RepoagentError as error:
            return Observation("restore", str(error), ok=False)
        if left:
            why = f"{said_of(left)}: left unchanged, because the user has changed the same lines."
            return Observation("restore", f"{why} Undo your change with an edit.", ok=False)
        return Observation("restore", f"{path} is restored to what it was before your change.")

    return (
        Tool(
            "keep",
            '<keep path="FILE"/> adds a file or folder that a command created to your change.',
            keep,
        ),
        Tool("restore", '<restore path="FILE"/> undoes all your changes to a file.', restore),
    )


def _path(action: Action) -> str:
    return action.args.get("path", "").strip().removeprefix("./")
