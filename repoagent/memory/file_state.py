"""Locate the file of a memory: at its path, moved, or gone. Nothing is written."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import read_source
from repoagent.git.index import paths_by_blob
from repoagent.git.process import GitError, git
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.memory.identity import resolve
from repoagent.memory.identity.hints import BLOB, EARLIER, KEY, PATH, Hint, IdentityIndex
from repoagent.memory.identity.record import FILE
from repoagent.memory.identity.resolve import WorkTreeFile, find, key_at, key_of
from repoagent.storage import jsonl
from repoagent.storage.layout import Layout

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
        value = jsonl.parse(quick_read(f"{self.layout.memory}/{name}/{FILE}"))
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
