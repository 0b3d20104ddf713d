"""The rows of a list of memories: only what is shown is looked at closely."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.memory.identity.index import Index, open_index
from repoagent.memory.notes.file import entries
from repoagent.memory.overview.state import Census, Standing, State, quick_read
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn

Order = Literal["path", "used", "size", "edits"]
_USED = ("conversation.md", "edits.jsonl", "notes.md")  # identity.json changes when a file is only looked at


class Measure(NamedTuple):
    """`size` is in bytes, of all files of the memory; `used` in seconds since 1970, when it was last added to."""

    size: int
    edits: int
    notes: int
    used: float


@dataclass(frozen=True)
class Row:
    """A memory: the name of its folder, what is in it, where its file is."""

    name: str
    measure: Measure
    standing: Standing


@dataclass(frozen=True)
class Wanted:
    """Which rows: of these files and folders (none: all), of these states (none: all), in which order, how many."""

    paths: Collection[str] = ()
    states: Collection[State] = ()
    order: Order = "path"
    limit: int | None = None


def rows(layout: Layout, worktree: WorkTree, wanted: Wanted, warn: Warn) -> Iterator[Row]:
    """The rows, one after the other as they are asked for. Raises Refused where the memory folder is no real one."""
    with open_index(layout, warn) as index:
        index.look_again()
        census = Census(layout, worktree, index)
        left = wanted.limit
        memory = str(layout.memory)
        for path, name in _ordered(memory, index, wanted):
            standing = census.standing(name, path)
            if wanted.states and standing.state not in wanted.states:
                continue
            if left is not None:
                if not left:
                    return
                left -= 1
            yield Row(name, measured(f"{memory}/{name}"), standing)


def _ordered(memory: str, index: Index, wanted: Wanted) -> Iterator[tuple[str, str]]:
    """(path, folder) of each."""
    found = sorted((path, name) for name, path in index.paths() if _is_in(path, wanted.paths))
    if wanted.order == "path":
        yield from found
        return
    keyed = [(_rank(f"{memory}/{name}", wanted.order), path, name) for path, name in found]
    for _, path, name in sorted(keyed, key=lambda one: -one[0]):  # stable: by path else
        yield path, name


def _rank(folder: str, order: Order) -> float:
    """What the rows are sorted by, and no more of a memory looked at than that takes."""
    if order == "size":
        return _sum(folder, {})
    if order == "edits":
        return _edits(quick_read(f"{folder}/edits.jsonl"))
    return max(map(_changed, (f"{folder}/{name}" for name in _USED))) or _changed(f"{folder}/identity.json")


def _changed(path: str) -> float:
    try:
        status = os.lstat(path)
    except OSError:
        return 0.0
    return status.st_mtime if stat.S_ISREG(status.st_mode) else 0.0


def _is_in(path: str, wanted: Collection[str]) -> bool:
    return not wanted or any(one in (".", path) or path.startswith(f"{one}/") for one in wanted)


def measured(folder: str | os.PathLike[str]) -> Measure:
    """What the files of a memory hold, as far as they can be read; links count as nothing."""
    base = os.fspath(folder)
    there: dict[str, os.stat_result] = {}
    size = _sum(base, there)
    used = max((there[name].st_mtime for name in _USED if name in there), default=0.0)
    if not used and "identity.json" in there:
        used = there["identity.json"].st_mtime
    edits = _edits(quick_read(f"{base}/edits.jsonl")) if "edits.jsonl" in there else 0
    notes = len(entries(quick_read(f"{base}/notes.md"))) if "notes.md" in there else 0
    return Measure(size, edits, notes, used)


def _sum(folder: str, there: dict[str, os.stat_result]) -> int:
    """How many bytes the regular files below a folder have; those in it itself go to `there`, by name."""
    size = 0
    try:
        with os.scandir(folder) as found:
            for entry in found:
                try:
                    if entry.is_file(follow_symlinks=False):
                        status = there[entry.name] = entry.stat(follow_symlinks=False)
                        size += status.st_size
                    elif entry.is_dir(follow_symlinks=False):
                        size += _sum(entry.path, {})
                except FileNotFoundError:
                    continue  # gone in this moment
    except OSError:
        return size
    return size


def _edits(data: bytes) -> int:
    """How many edits the lines of `edits.jsonl` tell of: one has a line more when its state changes."""
    ids = set()
    for line in data.split(b"\n"):
        try:
            value = json.loads(line) if line else None
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            ids.add(value["id"])
    return len(ids)
