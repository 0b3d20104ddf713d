"""What a command has changed: the work tree is looked at before it and after it.

A look costs one `git status` and the bytes of what is uncommitted; ignored files are not looked at. What somebody saves
while the command runs counts as the command's: nobody can tell them apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from repoagent.errors import Refused
from repoagent.repo import FileChange, WorkTree
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look
from repoagent.repo.status import Status, read_status, read_untracked
from repoagent.work.changes.ledger import Ledger

LARGEST = 4 * 1024 * 1024  # bytes of a file that is followed
MOST = 2_000  # uncommitted files whose bytes are looked at
NAMED = 20

Signature = tuple[int, int, int, int]


@dataclass(frozen=True)
class Seen:
    """One uncommitted or untracked path: its signature, and its bytes where they are followed."""

    signature: Signature | None
    content: Content | None
    tracked: bool
    followed: bool = True


def watch(worktree: WorkTree, ledger: Ledger, say: Callable[[str], None]) -> Callable[[], Callable[[], str]]:
    """What looks before a command, and returns what looks after it: that tells the model what has changed.

    `say` gets a sentence where the person's own uncommitted work was changed.
    """
    known: dict[str, Seen] = {}  # from look to look, so that a file that stays as it is is read once

    def before() -> Callable[[], str]:
        status, seen = _look(worktree, known)
        known.clear()
        known.update(seen)
        return lambda: _after(worktree, ledger, status, seen, say)

    return before


def _after(
    worktree: WorkTree, ledger: Ledger, was: Status, seen: dict[str, Seen], say: Callable[[str], None]
) -> str:
    status, now = _look(worktree, seen)
    changes: list[FileChange] = []
    candidates: list[FileChange] = []
    large: list[str] = []
    for path in sorted({*seen, *now}):
        before, after = seen.get(path), now.get(path)
        if before is not None and after is not None and before.signature == after.signature:
            continue
        if not (before or after or _NONE).followed or not (after or before or _NONE).followed:
            large.append(path)
            continue
        old = before.content if before is not None else _committed(worktree, status, was, path)
        new = after.content if after is not None else _present(worktree, path)
        if old == new:
            continue
        tracked = (before or after or _NONE).tracked
        own = ledger.of(path) is not None
        (changes if tracked or (own and path not in _candidates(ledger)) else candidates).append(
            _change(path, old, new)
        )
        if tracked and before is not None and old is not None and not own:
            say(f"{path}, which holds your uncommitted work, was changed by the command; {_undo(path)}")
    if changes:
        ledger.wrote(changes)
    if candidates:
        ledger.found(candidates)
    return _told(changes, candidates, large)


_NONE = Seen(None, None, True)


def _undo(path: str) -> str:
    return "its bytes before are kept in the run's folder until the run is deleted"


def _candidates(ledger: Ledger) -> set[str]:
    return {change.name for change in ledger.candidates}


def _look(worktree: WorkTree, known: dict[str, Seen]) -> tuple[Status, dict[str, Seen]]:
    """All paths with uncommitted bytes in the work tree, and all untracked ones."""
    status = read_status(worktree)
    tracked = [path for path, one in status.changed.items() if one.unstaged and not one.submodule]
    staged = [path for path in status.changed if path not in tracked and not status.changed[path].submodule]
    found = {
        path: _see(worktree, path, known.get(path), tracked=True, follow=n < MOST)
        for n, path in enumerate((*tracked, *staged))
    }
    for n, path in enumerate(read_untracked(worktree)):
        if not path.endswith("/"):  # another repository
            found[path] = _see(worktree, path, known.get(path), tracked=False, follow=n < MOST)
    return status, found


def _see(worktree: WorkTree, path: str, known: Seen | None, *, tracked: bool, follow: bool) -> Seen:
    signature = _signature(worktree, path)
    if known is not None and signature is not None and known.signature == signature:
        return Seen(signature, known.content, tracked, known.followed)
    if signature is None:
        return Seen(None, None, tracked)
    if not follow or signature[1] > LARGEST:
        return Seen(signature, None, tracked, followed=False)
    try:
        return Seen(signature, look(worktree.top, path), tracked)
    except Refused:  # a fifo, a folder in its place
        return Seen(signature, None, tracked, followed=False)


def _signature(worktree: WorkTree, path: str) -> Signature | None:
    try:
        found = os.lstat(worktree.top / path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _committed(worktree: WorkTree, status: Status, was: Status, path: str) -> Content | None:
    """What a file held that was as it is staged, and is not any more."""
    if path not in status.changed or path in was.changed:
        return None
    entry = status.changed[path].staged
    return None if entry is None else from_blob(worktree, path, entry)


def _present(worktree: WorkTree, path: str) -> Content | None:
    """What a file holds that has nothing uncommitted any more, or is gone."""
    try:
        return look(worktree.top, path)
    except Refused:
        return None


def _change(path: str, old: Content | None, new: Content | None) -> FileChange:
    return FileChange(
        path if old is not None else None,
        path if new is not None else None,
        old.data if old is not None else None,
        new.data if new is not None else None,
        old.mode if old is not None else None,
        new.mode if new is not None else None,
    )


def _told(changes: Sequence[FileChange], candidates: Sequence[FileChange], large: Sequence[str]) -> str:
    return "\n".join(_sentences(changes, candidates, large))


def _sentences(
    changes: Sequence[FileChange], candidates: Sequence[FileChange], large: Sequence[str]
) -> Iterator[str]:
    if changes:
        yield f"It changed {_names([_verb(change) for change in changes])}: a part of your change now."
    made = [change.name for change in candidates if change.after is not None]
    if made:
        yield (
            f"It made {_names(made)}, which git does not know: no part of your change unless you say "
            f'<keep path="FILE"/>.'
        )
    if large:
        yield f"{_names(large)} changed too, and is too large, or not a file, to be a part of your change."


def _verb(change: FileChange) -> str:
    if change.before is None:
        return f"{change.name} (new)"
    return f"{change.name} (deleted)" if change.after is None else change.name


def _names(names: Sequence[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
