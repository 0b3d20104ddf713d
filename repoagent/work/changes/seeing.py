"""A look at the work tree: each path with uncommitted bytes in it, and each that git does not know."""

from __future__ import annotations

import os
from collections.abc import Iterator

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.repo import FileChange, WorkTree
from repoagent.repo.blobs import from_blob
from repoagent.repo.content import Content, look
from repoagent.repo.status import Status, read_status_and_untracked
from repoagent.work.changes.ledger import Ledger

LARGEST = 4 * 1024 * 1024  # bytes of a file that is followed
MOST = 2_000  # uncommitted files whose bytes are looked at
IN_ALL = 256 * 1024 * 1024  # bytes of all that are followed: they are held in memory

Signature = tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """One uncommitted or untracked path: its signature, and its bytes where they are followed."""

    signature: Signature | None
    content: Content | None
    tracked: bool
    followed: bool = True


UNSEEN = Seen(None, None, True)


@dataclass(frozen=True)
class Look:
    """What a look has seen, and what the ledger held then. `repositories` are others, in folders that git does not
    know."""

    status: Status
    seen: dict[str, Seen]
    entries: frozenset[FileChange]
    repositories: tuple[str, ...]


def look_around(worktree: WorkTree, ledger: Ledger, known: dict[str, Seen]) -> Look:
    """All paths with uncommitted bytes in the work tree, and all untracked ones."""
    status, others = read_status_and_untracked(worktree)
    changed = {path: one for path, one in status.changed.items() if not one.submodule}
    tracked = [path for path, one in changed.items() if one.unstaged]
    staged = [path for path, one in changed.items() if not one.unstaged]
    found: dict[str, Seen] = {}
    left = IN_ALL
    for is_tracked, paths in ((True, (*tracked, *staged)), (False, others)):
        for n, path in enumerate(paths):
            if path.endswith("/"):  # another repository
                continue
            follow = n < MOST and left > 0
            found[path] = seen = _see(worktree, path, known.get(path), tracked=is_tracked, follow=follow)
            left -= len(seen.content.data) if seen.content is not None else 0
    return Look(status, found, entries(ledger), tuple(path for path in others if path.endswith("/")))


def differences(
    worktree: WorkTree, was: Look, now: Look
) -> Iterator[tuple[str, Content | None, Content | None]]:
    """Each path that is another than it was, with what it held and what it holds, where that is followed."""
    for path in sorted({*was.seen, *now.seen}):
        before, after = was.seen.get(path), now.seen.get(path)
        if before is not None and after is not None and before.signature == after.signature:
            continue
        if not (before or after or UNSEEN).followed or not (after or before or UNSEEN).followed:
            yield path, None, None
            continue
        old = before.content if before is not None else _committed(worktree, now.status, was.status, path)
        new = after.content if after is not None else _present(worktree, path)
        if old != new:
            yield path, old, new


def _see(worktree: WorkTree, path: str, known: Seen | None, *, tracked: bool, follow: bool) -> Seen:
    signature = _signature(worktree, path)
    if known is not None and signature is not None and known.signature == signature:
        if known.tracked == tracked and (follow or not known.followed):
            return known
        if follow:
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
        found = os.lstat(f"{worktree.top}/{path}")  # joined as text: there may be 100,000
    except OSError:
        return None
    # the time of the last change of any kind is the one that a command can't set
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_ctime_ns


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


def entries(ledger: Ledger) -> frozenset[FileChange]:
    return frozenset((*ledger.changes, *ledger.candidates))


def change_of(path: str, old: Content | None, new: Content | None) -> FileChange:
    """The change from `old` to `new` of one path."""
    return FileChange(
        path if old is not None else None,
        path if new is not None else None,
        old.data if old is not None else None,
        new.data if new is not None else None,
        old.mode if old is not None else None,
        new.mode if new is not None else None,
    )
