"""List memories, and locate the file of each: at its path, moved, or gone. Writes nothing.

Files are located only for the rows that are shown.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.git.index import paths_by_blob
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.memory.identity.memory_index import BLOB, EARLIER, KEY, PATH, Hint, IdentityIndex, open_index
from repoagent.memory.identity.record import FILE
from repoagent.memory.identity.renames import changed_files, renames_since
from repoagent.memory.identity.resolve import MANY, file_at, find_memory, key_of
from repoagent.memory.notes import note_entries
from repoagent.storage import json_files
from repoagent.storage.layout import Layout, Warn

State = Literal["live", "moved", "orphaned"]
STATES: tuple[State, ...] = ("live", "moved", "orphaned")
_TRIED = 5  # most candidates with the same content, or with an earlier path
_CHANGED = 50  # most new files that are compared with a missing one


@dataclass(frozen=True)
class MemoryLocation:
    """The location of a memory's file. `path` is its recorded path in this work tree.

    `at` is its current path if that differs, else ""; it is absolute for a file that only another work tree has.
    """

    state: State
    path: str
    at: str = ""


@dataclass
class FileLocator:
    """Locates the files that memories are about. Slow searches run once, and only if a file is missing."""

    layout: Layout
    worktree: WorkTree
    index: IdentityIndex
    _owners: dict[str, str | None] = field(default_factory=dict)
    _renames: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def locate(self, name: str, path: str) -> MemoryLocation:
        """Locate the file of the memory in the folder `name`; `path` is the path in its identity."""
        hints = self.index.hints_of(name)
        top = str(self.worktree.top)
        if sum(kind == PATH for kind, _ in hints) > 1:
            identity = self.index.identity(name)
            path = path if identity is None else identity.path_in(top)
        key = _file_key(f"{top}/{path}")
        if key and ((KEY, key) in hints or self._owner(path) == name):
            return MemoryLocation("live", path)
        for candidate in self._candidates(name, path, hints):
            if candidate != path and self._owner(candidate) == name:
                return MemoryLocation("moved", path, candidate)
        identity = self.index.identity(name) if len(self._tops) > 1 else None
        for other, seen in identity.places.items() if identity is not None else ():
            if other != top and other in self._tops and _file_key(f"{other}/{seen.path}"):
                return MemoryLocation("live", path, f"{other}/{seen.path}")
        return MemoryLocation("orphaned", path)

    def _owner(self, path: str) -> str | None:
        """The memory of the file at `path`; None if it has none or cannot be read."""
        if path not in self._owners:
            file = file_at(self.worktree, path)
            match = None if file is None else find_memory(self.layout, self.index, file)
            self._owners[path] = None if match is None else match.folder
        return self._owners[path]

    def _candidates(self, name: str, path: str, hints: Collection[Hint]) -> Iterator[str]:
        """Files that may be the missing one, most likely first."""
        value = json_files.parse_document(_content(f"{self.layout.memory}/{name}/{FILE}")) or {}
        commit = value.get("commit")
        if isinstance(commit, str) and is_full_id(commit):
            if commit not in self._renames:
                self._renames[commit] = dict(renames_since(self.worktree, commit))
            if path in self._renames[commit]:
                yield self._renames[commit][path]
        blobs = (value for kind, value in hints if kind == BLOB)
        yield from islice((same for blob in blobs for same in self._by_blob.get(blob, ())), _TRIED)
        yield from islice((value for kind, value in hints if kind == EARLIER), _TRIED)
        yield from (self._by_key[value] for kind, value in hints if kind == KEY and value in self._by_key)
        yield from self._new_files[: 0 if self.index.count(MANY) >= MANY else _CHANGED]

    @cached_property
    def _tops(self) -> list[str]:
        return worktree_tops(self.worktree)

    @cached_property
    def _by_blob(self) -> dict[str, list[str]]:
        return paths_by_blob(self.worktree)

    @cached_property
    def _new_files(self) -> list[str]:
        """New or changed files, those without a memory at their path first."""
        return sorted(changed_files(self.worktree), key=lambda path: bool(self.index.names(PATH, path)))

    @cached_property
    def _by_key(self) -> dict[str, str]:
        top = self.worktree.top
        return {key: path for path in self._new_files if (key := _file_key(f"{top}/{path}"))}

    @cached_property
    def not_compared(self) -> int:
        """How many new files without a memory are too many to be compared with the missing ones, or 0."""
        new = [path for path in self._by_key.values() if not self.index.names(PATH, path)]
        return len(new) if len(new) > _CHANGED or self.index.count(MANY) >= MANY else 0


def worktree_tops(worktree: WorkTree) -> list[str]:
    """The tops of all work trees of the repository, this one first; a bare repository is left out."""
    listed = git(worktree.top, "worktree", "list", "--porcelain")
    blocks = [block.split(b"\n") for block in listed.split(b"\n\n") if block]
    paths = [block[0].removeprefix(b"worktree ") for block in blocks if b"bare" not in block]
    return list(dict.fromkeys([str(worktree.top), *(os.path.realpath(os.fsdecode(path)) for path in paths)]))


def _content(path: str) -> bytes:
    """The bytes of a small regular file, without the checks of `read_regular`, which take long for many; b"" else."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read()
    return b""


def _file_key(path: str) -> str:
    """The key of a regular file; "" if there is none. (Called 100,000 times; a Path would double the time.)"""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return ""
    return key_of(status) if stat.S_ISREG(status.st_mode) else ""


Order = Literal["path", "used", "size", "edits"]
_USED = ("conversation.md", "edits.jsonl", "notes.md")  # identity.json also changes without an edit


class MemoryUse(NamedTuple):
    """The size and last use of a memory.

    size: the total size of its files in bytes.
    edits, notes: the numbers of its edits and notes.
    used: the time of the last addition, in seconds since 1970.
    """

    size: int
    edits: int
    notes: int
    used: float


@dataclass(frozen=True)
class MemoryRow:
    """A memory in a list: its folder's name, its sizes, and the location of its file."""

    name: str
    measure: MemoryUse
    location: MemoryLocation


def memory_rows(
    layout: Layout,
    worktree: WorkTree,
    warn: Warn,
    *,
    paths: Collection[str] = (),
    states: Collection[State] = (),
    order: Order = "path",
    limit: int | None = None,
) -> Iterator[MemoryRow]:
    """Yield at most `limit` rows for the files and folders in `paths` with these `states`; () means all.

    Each file is located when its row is reached. Raises Refused if the memory folder is a link or a file.
    """
    memory = str(layout.memory)
    with open_index(layout, warn) as index:
        locator = FileLocator(layout, worktree, index)
        selected = sorted(
            (path, name)
            for name, path in index.paths()
            if not paths or any(at in (".", path) or path.startswith(f"{at}/") for at in paths)
        )
        if order != "path":
            selected.sort(key=lambda pair: -getattr(measure_memory(f"{memory}/{pair[1]}"), order))  # stable
        found = ((name, locator.locate(name, path)) for path, name in selected)
        matching = ((name, location) for name, location in found if not states or location.state in states)
        for name, location in islice(matching, limit):
            yield MemoryRow(name, measure_memory(f"{memory}/{name}"), location)


def measure_memory(folder: str | os.PathLike[str]) -> MemoryUse:
    """Measure a memory's files; links and unreadable files count as empty."""
    base = os.fspath(folder)
    size, times = 0, dict[str, float]()
    for path, _, names in os.walk(base):
        for name in names:
            with suppress(OSError):  # just renamed or deleted
                status = os.lstat(f"{path}/{name}")
                if stat.S_ISREG(status.st_mode):
                    size += status.st_size
                    times |= {name: status.st_mtime} if path == base else {}
    lines = map(json_files.record_of, _content(f"{base}/edits.jsonl").split(b"\n"))
    ids = {value.get("id") for value in lines if value}  # another line for each change in a state
    notes = len(note_entries(_content(f"{base}/notes.md"))) if "notes.md" in times else 0
    used = max((times[name] for name in _USED if name in times), default=times.get(FILE, 0.0))
    return MemoryUse(size, len({identity for identity in ids if isinstance(identity, str)}), notes, used)
