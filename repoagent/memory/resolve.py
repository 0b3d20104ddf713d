"""Which memory belongs to a file? Content decides; paths and inodes are only where to look.

The five rules of DESIGN section 3, in order. An inode that is known for another file, with exactly the
content that is here, comes before a path whose content is merely alike: that is how two swapped names are
told apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from repoagent.errors import Refused
from repoagent.memory import ancestry
from repoagent.memory.identity import REWRITTEN, Identity, last_content, load
from repoagent.memory.index import Entry, Index
from repoagent.memory.similar import RENAME, similarity
from repoagent.repo.source import blob_hash, read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout, Warn


@dataclass(frozen=True)
class File:
    """A file as it is now. `key` is "<device>:<inode>", "" for one that is not on disk."""

    worktree: WorkTree
    path: str
    data: bytes
    key: str

    @cached_property
    def blob(self) -> str:
        return blob_hash(self.data, self.worktree.object_format)

    @property
    def says_something(self) -> bool:
        """An empty file looks like any other: its content proves nothing."""
        return bool(self.data.strip())


@dataclass(frozen=True)
class Found:
    """The memory in the folder named `folder`. `moved`: the file of that memory is now at the path asked
    for. `reason` is empty where path and content simply agree."""

    folder: str
    reason: str = ""
    moved: bool = False


def key_of(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def key_at(worktree: WorkTree, path: str) -> str:
    """The key of what is at `path` now, no link followed; "" for nothing."""
    try:
        return key_of(os.lstat(worktree.top / path))
    except OSError:
        return ""


def find(layout: Layout, index: Index, file: File, warn: Warn) -> Found | None:
    """The memory of `file`, or None for a new one. Reads files, asks git when it must, writes nothing."""
    return _Search(layout, index, file, warn).run()


@dataclass(frozen=True)
class _Search:
    layout: Layout
    index: Index
    file: File
    warn: Warn

    def run(self) -> Found | None:
        here = self.index.at_path(self.file.path)
        return (
            self._same_blob(here)  # rule 1
            or self._by_inode(here, exactly=True)  # rule 2
            or self._alike(here)  # rule 1
            or self._by_inode(here, exactly=False)  # rule 2
            or self._moved_back()  # rule 2, for a path it had before
            or self._by_git(here)  # rule 3
            or self._rewritten(here)  # rule 4
        )

    def _same_blob(self, here: list[Entry]) -> Found | None:
        return next((Found(entry.folder) for entry in here if self._closeness(entry, self.file) == 1.0), None)

    def _alike(self, here: list[Entry]) -> Found | None:
        best = self._closest(here)
        return None if best is None else Found(best.folder)

    def _by_inode(self, here: list[Entry], *, exactly: bool) -> Found | None:
        file = self.file
        if not file.key or not file.says_something:
            return None
        others = [entry for entry in self.index.with_key(file.key) if entry not in here]
        entry = self._closest(others, 1.0 if exactly else RENAME)
        if entry is None:
            return None
        if key_at(file.worktree, entry.path) == file.key:
            return Found(entry.folder, f"a hard link of {entry.path}")
        return None if self._held(entry) else Found(entry.folder, f"moved from {entry.path}", moved=True)

    def _moved_back(self) -> Found | None:
        if not self.file.says_something:
            return None
        once = [entry for entry in self.index.once_at(self.file.path) if not self._held(entry)]
        entry = self._closest(once)
        return None if entry is None else Found(entry.folder, f"moved back from {entry.path}", moved=True)

    def _by_git(self, here: list[Entry]) -> Found | None:
        file = self.file
        if not file.says_something:
            return None
        for entry in here:
            identity = self._identity(entry)
            if (
                identity
                and identity.commit
                and ancestry.same_through_history(file.worktree, file.path, file.data, identity.commit)
            ):
                return Found(entry.folder, "another version from git's history")
        gone = {
            entry.path: entry
            for entry in self.index.entries.values()
            if entry.path != file.path and not key_at(file.worktree, entry.path)
        }
        if not gone:
            return None
        same = [entry for entry in gone.values() if entry.blob == file.blob]
        if len(same) == 1:  # what git calls an exact rename; it need not be asked
            return Found(same[0].folder, f"the same content as {same[0].path}, which is gone", moved=True)
        last_seen = {path: self._identity(entry) for path, entry in gone.items()}
        commits = {path: identity.commit if identity else None for path, identity in last_seen.items()}
        old = ancestry.renamed_from(file.worktree, file.path, commits)
        return None if old is None else Found(gone[old].folder, f"renamed from {old} in git", moved=True)

    def _rewritten(self, here: list[Entry]) -> Found | None:
        agreed = (entry for entry in here if self.file.key and self.file.key in entry.keys)
        return next((Found(entry.folder, REWRITTEN) for entry in agreed), None)

    def _held(self, entry: Entry) -> bool:
        """Whether the file of a memory is still where it was: like what it last saw, and not known as
        another's."""
        key = key_at(self.file.worktree, entry.path)
        if not key:
            return False
        try:
            data = read_source(self.file.worktree, entry.path).data
        except Refused:  # a folder, a link, a submodule by now
            return False
        if data is None:
            return False
        there = File(self.file.worktree, entry.path, data, key)
        if any(other.blob == there.blob and other != entry for other in self.index.with_key(key)):
            return False
        return self._closeness(entry, there) >= RENAME

    def _closest(self, entries: Iterable[Entry], least: float = RENAME) -> Entry | None:
        scored = [(self._closeness(entry, self.file), entry.folder, entry) for entry in entries]
        score, _, entry = max(scored, default=(0.0, "", None))
        return entry if score >= least else None

    def _closeness(self, entry: Entry, file: File) -> float:
        """1.0 for a version the memory has seen, else how alike `file` is to the last one."""
        if file.blob == entry.blob:
            return 1.0
        identity = self._identity(entry)
        if identity is not None and file.blob in identity.blobs:
            return 1.0
        last = last_content(self.layout.memory / entry.folder)
        return 0.0 if last is None else min(similarity(last, file.data), 0.999)

    def _identity(self, entry: Entry) -> Identity | None:
        try:
            return load(self.layout.memory / entry.folder, warn=self.warn)
        except Refused:
            return None  # it was said when the index was opened
