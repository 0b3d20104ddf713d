"""List memories, and locate the file of each: at its path, moved, or gone. Nothing is written.

A list looks closely only at the rows that it shows.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import read_source
from repoagent.git.index import paths_by_blob
from repoagent.git.process import GitError, git
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.memory.identity import resolve
from repoagent.memory.identity.hints import BLOB, EARLIER, KEY, PATH, Hint, IdentityIndex, open_index
from repoagent.memory.identity.record import FILE
from repoagent.memory.identity.resolve import WorkTreeFile, find, key_at, key_of
from repoagent.memory.notes import entries
from repoagent.storage import json_files
from repoagent.storage.layout import Layout, Warn

State = Literal["live", "moved", "orphaned"]
STATES: tuple[State, ...] = ("live", "moved", "orphaned")
_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TRIED = 5  # files with the same content that are asked whether they are the one
_CHANGED = 50  # new files that are compared with one that is gone
_MANY = 1000  # of more memories `resolve` itself does not compare contents


@dataclass(frozen=True)
class FileLocation:
    """`path` is where the memory has its file in this work tree; `at` where that is now when it is elsewhere: the path
    of a moved one, the absolute path of one that only another work tree has."""

    state: State
    path: str
    at: str = ""


@dataclass
class FileLocator:
    """Looks at one memory after the other; what takes long is done once, and only when a file is missed."""

    layout: Layout
    worktree: WorkTree
    index: IdentityIndex
    _owners: dict[str, str | None] = field(default_factory=dict)
    _renames: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def standing(self, name: str, path: str) -> FileLocation:
        """Of the memory in the folder `name`, whose identity has `path`."""
        hints = self.index.hints_of(name)
        if sum(kind == PATH for kind, _ in hints) > 1:
            known = self.index.identity(name)
            path = path if known is None else known.path_in(str(self.worktree.top))
        key = _file_key(f"{self.worktree.top}/{path}")
        if key and ((KEY, key) in hints or self._owner(path) == name):
            return FileLocation("live", path)
        for place in self._candidates(name, path, hints):
            if self._owner(place) == name:
                return FileLocation("moved", path, place)
        elsewhere = self._in_other_trees(name) if len(self._trees) > 1 else ""
        return FileLocation("live", path, elsewhere) if elsewhere else FileLocation("orphaned", path)

    def _owner(self, path: str) -> str | None:
        """The memory that the file at `path` would be given; None for none, and for what can't be read."""
        if path not in self._owners:
            self._owners[path] = self._asked(path)
        return self._owners[path]

    def _asked(self, path: str) -> str | None:
        try:
            data = read_source(self.worktree, path).data
        except (Refused, OSError, ValueError):
            return None
        if data is None:
            return None
        found = find(
            self.layout, self.index, WorkTreeFile(self.worktree, path, data, key_at(self.worktree, path))
        )
        return None if found is None else found.folder

    def _candidates(self, name: str, path: str, hints: Collection[Hint]) -> Iterator[str]:
        """Files that may be the one that is missed, the likely ones first."""
        seen = {path}
        for place in self._all_candidates(name, path, hints):
            if place not in seen:
                seen.add(place)
                yield place

    def _all_candidates(self, name: str, path: str, hints: Collection[Hint]) -> Iterator[str]:
        for key in (value for kind, value in hints if kind == KEY):
            yield from self._by_key.get(key, ())
        commit = self._commit(name)
        new = self._renamed(commit).get(path) if commit else None
        if new is not None:
            yield new
        blobs = (value for kind, value in hints if kind == BLOB)
        yield from islice((place for blob in blobs for place in self._by_blob.get(blob, ())), _TRIED)
        yield from islice((value for kind, value in hints if kind == EARLIER), _TRIED)
        if self._few:
            yield from self._strangers

    def _commit(self, name: str) -> str:
        """The commit of a memory, as quickly as it can be had."""
        value = json_files.parse(quick_read(f"{self.layout.memory}/{name}/{FILE}"))
        commit = value.get("commit") if value else None
        return commit if isinstance(commit, str) and is_full_id(commit) else ""

    @cached_property
    def _few(self) -> bool:
        return self.index.count(_MANY) < _MANY

    @cached_property
    def _by_key(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self._files:
            key = key_at(self.worktree, path)
            if key:
                found.setdefault(key, []).append(path)
        return found

    @cached_property
    def _files(self) -> list[str]:
        listed = git(self.worktree.top, "ls-files", "-c", "-o", "--exclude-standard", "-z")
        return [os.fsdecode(path) for path in dict.fromkeys(listed.split(b"\0")) if path]

    @cached_property
    def _by_blob(self) -> dict[str, list[str]]:
        return paths_by_blob(self.worktree)

    @cached_property
    def _strangers(self) -> list[str]:
        """Files that are new or changed, and that no memory has at their path."""
        new = (path for path in resolve.changed_files(self.worktree) if not self.index.names(PATH, path))
        return list(islice(new, _CHANGED))

    def _renamed(self, commit: str) -> Mapping[str, str]:
        if commit not in self._renames:
            self._renames[commit] = dict(resolve.renames_since(self.worktree, commit))
        return self._renames[commit]

    def _in_other_trees(self, name: str) -> str:
        """The absolute path of the file in another work tree of this repository; "" for nowhere."""
        identity = self.index.identity(name)
        for place, seen in identity.places.items() if identity is not None else ():
            if place != str(self.worktree.top) and place in self._trees:
                full = Path(place) / seen.path
                try:
                    if stat.S_ISREG(full.lstat().st_mode):
                        return str(full)
                except (OSError, ValueError):
                    continue
        return ""

    @cached_property
    def _trees(self) -> frozenset[str]:
        try:
            listed = git(self.worktree.top, "worktree", "list", "--porcelain")
        except GitError:
            return frozenset()
        lines = (line for line in listed.split(b"\n") if line.startswith(b"worktree "))
        return frozenset(os.path.realpath(os.fsdecode(line[len(b"worktree ") :])) for line in lines)


def quick_read(path: str) -> bytes:
    """A small file at once, in a folder that is known to be a real one; b"" for none, or what is no regular file."""
    try:
        descriptor = os.open(path, _SAFE)
    except OSError:
        return b""
    try:
        size = os.fstat(descriptor)
        return os.read(descriptor, size.st_size + 1) if stat.S_ISREG(size.st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _file_key(path: str) -> str:
    """The key of the regular file at `path`; "" for none. (A Path would take as long again, a hundred thousand
    times.)"""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return ""
    return key_of(status) if stat.S_ISREG(status.st_mode) else ""


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
    standing: FileLocation


@dataclass(frozen=True)
class RowFilter:
    """Which rows: of these files and folders (none: all), of these states (none: all), in which order, how many."""

    paths: Collection[str] = ()
    states: Collection[State] = ()
    order: Order = "path"
    limit: int | None = None


def rows(layout: Layout, worktree: WorkTree, wanted: RowFilter, warn: Warn) -> Iterator[Row]:
    """The rows, one after the other as they are asked for. Raises Refused where the memory folder is no real one."""
    with open_index(layout, warn) as index:
        index.look_again()
        census = FileLocator(layout, worktree, index)
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


def _ordered(memory: str, index: IdentityIndex, wanted: RowFilter) -> Iterator[tuple[str, str]]:
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
        return _count_edits(quick_read(f"{folder}/edits.jsonl"))
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
    edits = _count_edits(quick_read(f"{base}/edits.jsonl")) if "edits.jsonl" in there else 0
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


def _count_edits(data: bytes) -> int:
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
