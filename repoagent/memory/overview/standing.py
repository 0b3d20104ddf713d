"""All memories together: how much there is, what is set aside, who holds a lock, whether locks work at all."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.memory.identity.index import FEW, folders, open_index, shelf_file
from repoagent.memory.overview.rows import measured
from repoagent.memory.overview.state import Census
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn
from repoagent.store.locks import held_by, trouble_with_locks

_BROKEN = re.compile(r".+\.broken-\d+")


@dataclass(frozen=True)
class Totals:
    """`states` counts memories. `lacking` are folders without an identity that can be used. `set_aside` are paths of
    what was broken, `held` are (lock, who) of locks that are held now. `index` says how memories are found, in words,
    and `locks` what is wrong with the locks of the file system, "" for nothing."""

    states: Counter[str]
    lacking: tuple[str, ...]
    size: int
    edits: int
    notes: int
    sent: int
    set_aside: tuple[Path, ...]
    held: tuple[tuple[Path, str], ...]
    index: str
    locks: str

    @property
    def count(self) -> int:
        return self.states.total()


def totals(layout: Layout, worktree: WorkTree, warn: Warn) -> Totals:
    """Looks at every memory. Raises Refused where the memory folder is no real one."""
    states: Counter[str] = Counter()
    sums = [0, 0, 0]
    known = set()
    aside, locks = [*_aside(layout.root)], [layout.memory_lock, *_locks(layout.locks, "")]
    with open_index(layout, warn) as index:
        index.look_again()
        census = Census(layout, worktree, index)
        for name, path in index.paths():
            known.add(name)
            states[census.standing(name, path).state] += 1
    names = sorted(folders(layout.memory))
    for name in names:
        place = layout.memory / name
        measure = measured(place)
        sums = [total + one for total, one in zip(sums, measure[:3], strict=True)]
        aside += _aside(place)
        locks += _locks(place)
    return Totals(
        states=states,
        lacking=tuple(name for name in names if name not in known),
        size=sums[0],
        edits=sums[1],
        notes=sums[2],
        sent=sum(entry.stat(follow_symlinks=False).st_size for entry in _entries(layout.sent)),
        set_aside=tuple(sorted(aside)),
        held=tuple((lock, who) for lock in locks if (who := held_by(lock)) is not None),
        index=_index(layout, len(names)),
        locks=trouble_with_locks(layout.memory if layout.memory.is_dir() else worktree.top),
    )


def _index(layout: Layout, count: int) -> str:
    if count <= FEW:
        return "not needed: so few are simply read"
    try:
        size = shelf_file(layout).stat().st_size
    except OSError:
        return "can't be used: every memory is read each time"
    return f"up to date, {size:,} bytes"


def _aside(folder: Path) -> Iterator[Path]:
    return (folder / entry.name for entry in _entries(folder) if _BROKEN.fullmatch(entry.name))


def _locks(folder: Path, ending: str = ".lock") -> Iterator[Path]:
    """Lock files that somebody has signed: who gives a lock back empties it."""
    for entry in _entries(folder):
        if entry.name.endswith(ending) and entry.stat(follow_symlinks=False).st_size:
            yield folder / entry.name


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from (entry for entry in found)
    except OSError:
        return
