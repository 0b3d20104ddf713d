"""Compare two looks at the work tree: uncommitted and untracked paths, and how changes are described.

File names in text for a model are quoted, because whoever names a file must not be able to give instructions.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import Content, FileChange, blob_hash, look
from repoagent.git.index import Status, read_status_and_untracked
from repoagent.git.objects import from_blob
from repoagent.git.worktree import WorkTree
from repoagent.tasks.changes.change_set import ChangeSet

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


def look_around(worktree: WorkTree, change_set: ChangeSet, known: dict[str, Seen]) -> Look:
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
    return Look(status, found, entries(change_set), tuple(path for path in others if path.endswith("/")))


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


def entries(change_set: ChangeSet) -> frozenset[FileChange]:
    return frozenset((*change_set.changes, *change_set.candidates))


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


_PLAIN = re.compile(r"[\w./+@%=~-]+")


def named(path: str) -> str:
    """`path` as it is where it can't be taken for words; else in quotes, on one line, with what can't be seen
    escaped."""
    return path if _PLAIN.fullmatch(path) else json.dumps(path, ensure_ascii=not path.isprintable())


NAMED = 20


def written(path: str, change: FileChange | None = None, kind: str = "sha1") -> dict[str, object]:
    """What the audit keeps of a file that a command has written: without its blobs where it was not followed."""
    if change is None:
        return {"kind": "write", "by": "command", "path": path}
    before = None if change.before is None else blob_hash(change.before, kind)
    after = None if change.after is None else blob_hash(change.after, kind)
    return {**written(path), "before": before, "after": after}


def in_submodules(others: Sequence[tuple[str, list[str]]], say: Callable[[str], None]) -> Iterator[str]:
    """Sentences for the model, which the person gets in other words."""
    for what, paths in others:
        files = f" ({names_of(list(map(named, paths)))})" if paths else ""
        say(f"the command changed the submodule {what}{files}, which is not in the commit")
        yield f"It changed the submodule {what}{files}: another repository, so not part of your change."


def sentences(
    changes: Sequence[FileChange],
    candidates: Sequence[FileChange],
    large: Sequence[str],
    was_there: Mapping[str, bool],
) -> Iterator[str]:
    """`was_there` says of all that are candidates now whether they were files before the run."""
    if changes:
        yield f"It changed {names_of([verb(change) for change in changes])}: now part of your change."
    theirs = [verb(change) for change in candidates if was_there.get(change.name) is True]
    if theirs:
        yield (
            f"It changed {names_of(theirs)}, which git does not track: not part of your change; <restore "
            'path="FILE"/> undoes it.'
        )
    made = [named(change.name) for change in candidates if was_there.get(change.name) is False]
    if made:
        yield (
            f"It created {names_of(made)}, which git does not track: not part of your change unless you use "
            '<keep path="FILE"/>.'
        )
    if large:
        why = "too large, not a regular file, or more files than can be part of your change"
        yield f"It also changed {names_of(list(map(named, large)))}: {why}."


def verb(change: FileChange) -> str:
    """The file, and what became of it."""
    if change.before is None:
        return f"{named(change.name)} (new)"
    return f"{named(change.name)} (deleted)" if change.after is None else named(change.name)


def names_of(names: Sequence[str]) -> str:
    """The first of them in a line, and how many more there are."""
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
