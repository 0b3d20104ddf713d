"""The run's changes taken back: the rest of each file stays, and a file in which somebody has worked on top of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from repoagent.repo import FileChange
from repoagent.repo.content import Content, look
from repoagent.repo.merge import Conflict, say_lines
from repoagent.store import write_whole
from repoagent.work.changes.apart import Lines, before_of, without
from repoagent.work.changes.ledger import Ledger

Write = Callable[[Sequence[FileChange]], None]
Left = Mapping[str, Lines]


def put_back(ledger: Ledger, paths: Sequence[str], write: Write) -> Left:
    """Take the run's changes of `paths` back; what else was done to the files stays. The files that are left as they
    are, for somebody has changed the same lines, and which lines of them.

    Raises what `write` raises; nothing is changed then.
    """
    ledger.vanished()  # a kill came between the files and the ledger
    back: dict[str, FileChange] = {}
    left: dict[str, Lines] = {}
    for change in _about(ledger, paths):
        found = reverse(ledger, change)
        if isinstance(found, Conflict):
            left[change.name] = found.version or found.lines
        else:
            back[change.name] = found
    write([change for change in back.values() if not _is_there(change)])
    ledger.drop(back)
    return left


def put_back_whole(ledger: Ledger, paths: Sequence[str], write: Write) -> tuple[Path, ...]:
    """Make files what they were before the run, with nothing of what was done to them since. What they hold is copied
    before; the copies. Raises what `write` raises; no file is changed then."""
    wanted = list(_about(ledger, paths))
    back = [one for change in wanted for one in _whole(ledger, change)]
    folder = _free(ledger.folder / "backup")
    copies = []
    for change in back:
        if change.path is None and change.old_path is not None and change.before is not None:
            copies.append((change.old_path, change.before))
        elif change.before is not None and change.path is not None:
            copies.append((change.path, change.before))
    for path, data in copies:
        write_whole(folder / path, data)
    write([change for change in back if not _is_there(change)])
    ledger.drop([change.name for change in wanted])
    return tuple(folder / path for path, _ in copies)


def reverse(ledger: Ledger, change: FileChange) -> FileChange | Conflict:
    """The change that takes `change` back, from what its file holds now. A Conflict where somebody has changed the
    same lines since."""
    top = ledger.worktree.top
    if change.name in ledger.mixed:
        return Conflict(ledger.mixed[change.name])
    if change.is_rename and look(top, change.old_path or "") is not None:
        return Conflict()
    now = look(top, change.name)
    before = without(ledger.worktree, change, now)
    return before if isinstance(before, Conflict) else _change(change.path, now, change.old_path, before)


def said_of(left: Left) -> str:
    """ "f.txt (line 3), g.txt", for a message."""
    return ", ".join(path + (f" ({say_lines(lines)})" if lines else "") for path, lines in left.items())


def _about(ledger: Ledger, paths: Sequence[str]) -> Iterator[FileChange]:
    for change in (*ledger.changes, *ledger.candidates):
        if {change.path, change.old_path} & set(paths):
            yield change


def _whole(ledger: Ledger, change: FileChange) -> Iterator[FileChange]:
    for path in dict.fromkeys(filter(None, (change.old_path, change.path))):
        now = look(ledger.worktree.top, path)
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
