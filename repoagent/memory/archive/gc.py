"""Put away the memories that have lost their file for good: each as an archive that `memory import` brings back."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Busy
from repoagent.memory.archive.form import Parcel, dumps, fits, of_parcels, read_archive
from repoagent.memory.archive.orphans import Orphans
from repoagent.memory.archive.pack import contents, held, listing
from repoagent.memory.archive.scratch import ARCHIVE, move, scratch
from repoagent.memory.identity.index import open_index
from repoagent.memory.identity.record import FILE, Memory, load
from repoagent.memory.identity.remember import memory_lock
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn, document, to_stderr, write_whole

DAYS = 14  # as long as git itself keeps what nothing leads to
_DAY = 86_400
Verdict = Literal["orphan", "kept", "put away"]


@dataclass(frozen=True)
class Judged:
    """A memory without its file in this work tree. `size` is in bytes, `used` the time of its last change in seconds
    since 1970; `why` it is kept; `archive` is where it was put."""

    memory: Memory
    size: int
    used: float
    verdict: Verdict
    why: str = ""
    archive: Path | None = None


@dataclass(frozen=True)
class Collected:
    """Those that have no file here, by path, and how many memories there are in all."""

    judged: tuple[Judged, ...]
    memories: int


def collect(
    layout: Layout,
    worktree: WorkTree,
    *,
    days: int = DAYS,
    apply: bool = False,
    now: float | None = None,
    warn: Warn = to_stderr,
) -> Collected:
    """Which memories have lost their file, and were not changed for `days` days; with `apply` they are put away.

    What has a file in any work tree, or whose file any branch or stash has, also under another name, stays; so does
    what is locked, or waits for an edit to be remembered, or holds a file that is none of ours. A kill leaves each
    memory here or in the archive, or in both. Raises Busy while another process is at it, Refused where nothing can be
    written.
    """
    present = time.time() if now is None else now
    judged = _judged(layout, worktree, days, present, warn)
    if apply and any(one.verdict == "orphan" for one in judged[0]):
        with scratch(layout) as place:
            judged = (
                [
                    _put(layout, worktree, one, place / str(number)) if one.verdict == "orphan" else one
                    for number, one in enumerate(judged[0])
                ],
                judged[1],
            )
    return Collected(tuple(judged[0]), judged[1])


def archive_folder(layout: Layout) -> Path:
    return layout.root / ARCHIVE


def put_away(layout: Layout, memory: Memory, object_format: str) -> Path:
    """Keep a memory as it is, as an archive; where that is. The caller sees to it that it does not change."""
    data = dumps(of_parcels([_parcel(memory)], object_format, whole=True))
    path = archive_folder(layout) / f"{memory.folder.name}-{sha256(data).hexdigest()[:8]}.tar.gz"
    write_whole(path, data)
    return path


def _parcel(memory: Memory) -> Parcel:
    files = [path for path in listing(memory.folder)[0] if path != FILE and fits(path, whole=True)]
    return Parcel(memory.folder.name, memory.identity, contents(memory.folder, files))


def _judged(
    layout: Layout, worktree: WorkTree, days: int, now: float, warn: Warn
) -> tuple[list[Judged], int]:
    with open_index(layout, warn) as index:
        index.look_again()
        orphans = Orphans(layout, worktree, index)
        found = [(name, index.identity(name)) for name in orphans.found()]
        memories = [
            Memory(layout.memory / name, identity) for name, identity in found if identity is not None
        ]
        left = orphans.left(memories)
        count = len(index.paths())
    waited_for = _waited_for(layout)
    judged = []
    for memory in sorted(memories, key=lambda one: (one.identity.path, one.folder.name)):
        size, used = _measured(memory.folder)
        why = left.get(memory.folder.name, "") or _strange(memory.folder)
        if not why and memory.folder.name in waited_for:
            why = "an edit of it is still to be remembered"
        if not why and used > now - days * _DAY:
            why = f"it was changed less than {days} days ago"
        judged.append(Judged(memory, size, used, "kept" if why else "orphan", why))
    return judged, count


def _measured(folder: Path) -> tuple[int, float]:
    """Its size in bytes, and when one of its files was last changed."""
    found = [(folder / path).lstat() for path in listing(folder)[0]]
    return sum(one.st_size for one in found), max((one.st_mtime for one in found), default=0.0)


def _strange(folder: Path) -> str:
    files, others = listing(folder)
    names = [path for path in files if path != FILE and not fits(path, whole=True)] + others
    return f"it holds {names[0]}, which is not repoagent's" if names else ""


def _waited_for(layout: Layout) -> set[str]:
    """The memories that an edit was about which was killed before it was remembered, or is at work."""
    names: set[str] = set()
    for path in layout.pending.glob("*.json") if layout.pending.is_dir() else ():
        value = document.parse(path.read_bytes())
        memories = None if value is None else value.get("memories")
        if isinstance(memories, dict):
            names |= {str(name) for name in memories.values()}
    return names


def _put(layout: Layout, worktree: WorkTree, one: Judged, place: Path) -> Judged:
    folder = one.memory.folder
    try:
        with memory_lock(layout), held(folder, timeout=0.0):
            identity = load(folder, warn=lambda sentence: None)
            if identity != one.memory.identity or _measured(folder) != (one.size, one.used):
                return _kept(one, "it has changed in this moment")
            path = put_away(layout, one.memory, worktree.object_format)
            if not _is_whole(path, one.memory):
                return _kept(one, f"{path} does not read back as it")
            move(folder, place)
    except Busy as error:
        return _kept(one, str(error))
    return Judged(one.memory, one.size, one.used, "put away", archive=path)


def _is_whole(path: Path, memory: Memory) -> bool:
    with io.BytesIO(path.read_bytes()) as stream:
        archive = read_archive(stream, path.name, own=True)
    return archive.parcels == (_parcel(memory),)


def _kept(one: Judged, why: str) -> Judged:
    return Judged(one.memory, one.size, one.used, "kept", why)


def total(judged: Sequence[Judged], verdict: Verdict) -> int:
    """The bytes of those with this verdict."""
    return sum(one.size for one in judged if one.verdict == verdict)
