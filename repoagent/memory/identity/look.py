"""What is known of a file and of the memories that may be its own: facts, from which `resolve` decides."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.identity import ancestry
from repoagent.memory.identity.content import is_sample, last_contents, likeness
from repoagent.memory.identity.index import KEY, PATH, Index
from repoagent.memory.identity.record import Identity
from repoagent.memory.identity.similar import RENAME, shares_lines, similarity, worked_over
from repoagent.repo.source import blob_hash, read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout

CLEARLY = 0.05  # by so much more alike is one content believed before another
_CLAIMANTS = 50  # changed files that are compared with a memory


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


def key_of(status: os.stat_result) -> str:
    return f"{status.st_dev}:{status.st_ino}"


def key_at(worktree: WorkTree, path: str) -> str:
    """The key of what is at `path` now, no link followed; "" for nothing."""
    try:
        return key_of(os.lstat(worktree.top / path))
    except OSError:
        return ""


class Candidate(NamedTuple):
    """A memory: its folder, what it knows, and the path of its file in this work tree."""

    folder: str
    identity: Identity
    path: str


@dataclass(frozen=True)
class Look:
    """A file, and the memories to find its own among."""

    layout: Layout
    index: Index
    file: File

    def having(self, kind: str, value: str) -> list[Candidate]:
        return [each for name in self.index.names(kind, value) for each in self.load(name)]

    def load(self, name: str) -> list[Candidate]:
        identity = self.index.identity(name)
        if identity is None or self.file.path in identity.strangers:
            return []
        return [Candidate(name, identity, identity.path_in(str(self.file.worktree.top)))]

    def closest(
        self, candidates: Iterable[Candidate], least: float = RENAME
    ) -> tuple[float, Candidate | None]:
        scored = [(self.closeness(each, self.file), each.folder, each) for each in candidates]
        score, _, best = max(scored, default=(0.0, "", None), key=lambda one: one[:2])
        return (score, best) if score >= least else (score, None)

    def closeness(self, each: Candidate, file: File) -> float:
        """1.0 for a version the memory has seen, else how alike `file` is to what it last saw."""
        if file.blob in each.identity.blobs:
            return 1.0
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return min(max((likeness(kept, file.data) for kept in contents), default=0.0), 0.999)

    def file_at(self, path: str) -> File | None:
        try:
            data = read_source(self.file.worktree, path).data
        except Refused:  # a folder, a link, a submodule by now
            return None
        return (
            None if data is None else File(self.file.worktree, path, data, key_at(self.file.worktree, path))
        )

    def is_held(self, each: Candidate) -> bool:
        """Whether the file of a memory is still where it was: like what it last saw, and not clearly more like what
        another memory saw on that inode."""
        there = self.file_at(each.path)
        if there is None:
            return False
        closeness = self.closeness(each, there)
        for other in self.having(KEY, there.key):
            if other.folder == each.folder or there.key not in other.identity.keys:
                continue
            if other.identity.blob == there.blob or self.closeness(other, there) > closeness + CLEARLY:
                return False
        return closeness >= RENAME or self.is_worked_over(each, there)

    def is_gone(self, each: Candidate) -> bool:
        return each.path != self.file.path and not key_at(self.file.worktree, each.path)

    def is_displaced(self, each: Candidate) -> bool:
        """Whether the file of another memory has the path by now: by what that one has seen, not by what is unlike."""
        there = self.file_at(each.path)
        if there is None or there.path == self.file.path:
            return False
        least = max(RENAME, self.closeness(each, there) + CLEARLY)
        others = [*self.having(KEY, there.key), *self.having(PATH, there.path)]
        return any(
            self.closeness(other, there) >= least
            for other in others
            if other.folder != each.folder and (other.path == there.path or there.key in other.identity.keys)
        )

    def is_lost(self, each: Candidate) -> bool:
        """Whether the path is gone, or another file has it by now: neither the content is like it nor the inode."""
        if self.is_gone(each):
            return True
        return each.path != self.file.path and not self.is_in_place(each) and not self.is_held(each)

    def is_in_place(self, each: Candidate) -> bool:
        """Whether the file has its inode still."""
        return bool(self.file.key) and self.file.key in each.identity.keys

    def is_replaced(self, each: Candidate) -> bool:
        """Whether a program has put a new file, with some of the text, at the path of a memory: git has what the memory
        saw there, and no other file claims the memory, the path or the inode."""
        file = self.file
        if any(file.key in other.identity.keys for other in self.having(KEY, file.key)):
            return False
        kept = [
            one
            for one in last_contents(self.layout.memory / each.folder, file.worktree)
            if not is_sample(one)
        ]
        if not any(shares_lines(one, file.data) for one in kept):
            return False
        in_git = (ancestry.in_head(file.worktree, file.path), ancestry.in_index(file.worktree, file.path))
        blobs = {blob_hash(data, file.worktree.object_format) for data in in_git if data is not None}
        if not any(self.was_in_git(each, blob) for blob in blobs) or self.is_overwritten(each):
            return False
        if any(new == file.path for _, new in ancestry.renames_since(file.worktree, "HEAD")):
            return False
        changed = [path for path in ancestry.changed_files(file.worktree) if path != file.path][
            : _CLAIMANTS + 1
        ]
        others = [
            self.file_at(path) for path in (*each.identity.earlier_paths, *changed) if path != file.path
        ]
        return len(changed) <= _CLAIMANTS and not any(
            there is not None and self.closeness(each, there) >= RENAME for there in others
        )

    def is_elsewhere(self, each: Candidate) -> bool:
        """Whether the inode of a gone file is at another changed name, or one it had, with its content: it is there."""
        keys = each.identity.keys.keys() - {self.file.key}
        for path in chain(each.identity.earlier_paths, ancestry.changed_files(self.file.worktree)):
            if path not in (self.file.path, each.path) and key_at(self.file.worktree, path) in keys:
                there = self.file_at(path)
                if there is not None and self.closeness(each, there) >= RENAME:
                    return True
        return False

    def is_committed(self) -> bool:
        """Whether HEAD has this file, and no other one, at the path: then it may have been beside what is gone."""
        there = ancestry.in_head(self.file.worktree, self.file.path)
        return there is not None and similarity(there, self.file.data) >= RENAME

    def is_in_index(self) -> bool:
        """Whether git's index has this file, and no other one, at the path: only of that it can tell where it was."""
        there = ancestry.in_index(self.file.worktree, self.file.path)
        if there is None:
            return False
        return similarity(there, self.file.data) >= RENAME or worked_over(there, self.file.data)

    def was_in_git(self, each: Candidate, blob: str) -> bool:
        """Whether the `blob` that git had at the path of a memory is what the memory saw there."""
        if blob in each.identity.blobs:
            return True
        data = ancestry.as_in_work_tree(self.file.worktree, blob, each.path)
        if data is None:
            return False
        then = File(self.file.worktree, each.path, data, "")
        return self.closeness(each, then) >= RENAME or self.is_worked_over(each, then)

    def is_worked_over(self, each: Candidate, file: File) -> bool:
        """Not for a large file: what is kept of it shows how alike it is, not what was left out."""
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return any(worked_over(kept, file.data) for kept in contents if not is_sample(kept))

    def is_renamed_from(self, each: Candidate) -> bool:
        """Whether to git this file had a path of a memory in HEAD, or when that was last edited."""
        return any(new == self.file.path for _, new in self._renames(each))

    def has_moved_away(self, each: Candidate) -> bool:
        """Whether git knows another name for the file of a memory: that path or inode agrees here is luck then."""
        return any(new != self.file.path for _, new in self._renames(each))

    def is_overwritten(self, each: Candidate) -> bool:
        """Whether to git another file has come to the path of a memory."""
        renames = ancestry.renames_since(self.file.worktree, each.identity.commit or "HEAD")
        return any(new == each.path and old not in each.identity.earlier_paths for old, new in renames)

    def _renames(self, each: Candidate) -> list[tuple[str, str]]:
        paths = {each.path, *each.identity.earlier_paths}
        renames = ancestry.renames_since(self.file.worktree, each.identity.commit or "HEAD")
        return [(old, new) for old, new in renames if old in paths]

    def is_case_only(self, path: str) -> bool:
        """Whether `path` is the old spelling of this file's name, on a file system that takes both for one."""
        folder, _, name = path.rpartition("/")
        if path.casefold() != self.file.path.casefold():
            return False
        try:
            return all(path.name != name for path in (self.file.worktree.top / folder).iterdir())
        except OSError:
            return False
