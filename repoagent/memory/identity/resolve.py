"""Which memory belongs to a file? Content decides; paths and inodes only suggest candidates.

The rules, in order: the same path with the same content; an inode known for another file, with exactly this content, or
with content clearly more similar than that of the memory of this path (this detects swapped names); the same path with
similar or reworked content; an earlier path; renames in git; content similar to that of a file whose path is gone or
now has another file; a file rewritten in place, or replaced by a new one that shares some of its lines. A rename in git
counts only if the memory saw git's version at the old path, and the file matches git's version at the new one or has
the inode. If a file elsewhere has the inode and the content, the memory belongs to that file; if two memories match
equally, neither is used. Paths are those of this work tree, because a file may have another name in another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import blob_hash, read_source
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity.git_renames import (
    as_in_work_tree,
    blob_at,
    changed_files,
    renamed_from,
    renames_since,
    same_through_history,
)
from repoagent.memory.identity.hints import BLOB, EARLIER, KEY, PATH, IdentityIndex
from repoagent.memory.identity.record import REWRITTEN, Identity
from repoagent.memory.identity.similarity import (
    RENAME,
    is_alike,
    last_contents,
    shares_lines,
    similarity,
    worked_over,
)
from repoagent.storage.layout import Layout

CLEARLY = 0.05  # least difference in similarity to prefer one content
MANY = 1000  # with more memories, those without a file are not searched
_COMPARED = 50  # most missing or changed files to compare with a file; git limits renames, too


@dataclass(frozen=True)
class WorkTreeFile:
    """A file in its current state. `key` is "<device>:<inode>", "" if it is not on disk."""

    worktree: WorkTree
    path: str
    data: bytes
    key: str

    @cached_property
    def blob(self) -> str:
        return blob_hash(self.data, self.worktree.object_format)

    @property
    def says_something(self) -> bool:
        """Whether the content can identify the file; that of an empty file cannot."""
        return bool(self.data.strip())


def key_of(status: os.stat_result) -> str:
    """The device and inode of a file as "<device>:<inode>"."""
    return f"{status.st_dev}:{status.st_ino}"


def key_at(worktree: WorkTree, path: str) -> str:
    """The key of the file or link at `path`; "" if there is none."""
    try:
        return key_of(os.lstat(worktree.top / path))
    except OSError:
        return ""


def file_at(worktree: WorkTree, path: str) -> WorkTreeFile | None:
    """The file at `path`; None if there is none, or a folder, a link or a submodule."""
    try:
        data = read_source(worktree, path).data
    except (Refused, OSError, ValueError):
        return None
    return None if data is None else WorkTreeFile(worktree, path, data, key_at(worktree, path))


@dataclass(frozen=True)
class MemoryMatch:
    """The memory in the folder named `folder`. `moved`: whether its file had another path before. `reason` is "" if
    path and content match."""

    folder: str
    reason: str = ""
    moved: bool = False


class _Candidate(NamedTuple):
    """A memory: its folder, its identity, and the path of its file in this work tree."""

    folder: str
    identity: Identity
    path: str

    def moved(self, reason: str) -> MemoryMatch:
        return MemoryMatch(self.folder, reason, moved=True)


def find(layout: Layout, index: IdentityIndex, file: WorkTreeFile) -> MemoryMatch | None:
    """The memory of `file`; None if it is new. Reads files, runs git only if needed, writes nothing."""
    search = _Search(layout, index, file)
    at_path = [memory for memory in search.having(PATH, file.path) if memory.path == file.path]
    match = search.by_path_or_inode(at_path)
    if match is None and file.says_something:
        match = search.moved_back() or search.by_git(at_path)
    return match or search.rewritten(at_path)


@dataclass(frozen=True)
class _Search:
    """A search for the memory of one file."""

    layout: Layout
    index: IdentityIndex
    file: WorkTreeFile

    def having(self, kind: str, value: str) -> list[_Candidate]:
        return self._load(self.index.names(kind, value))

    def _load(self, names: Iterable[str]) -> list[_Candidate]:
        top = str(self.file.worktree.top)
        loaded = ((name, self.index.identity(name)) for name in names)
        return [
            _Candidate(name, identity, identity.path_in(top))
            for name, identity in loaded
            if identity is not None and self.file.path not in identity.strangers
        ]

    # -- the rules, most reliable first --

    def by_path_or_inode(self, at_path: list[_Candidate]) -> MemoryMatch | None:
        file = self.file
        scored = [(self.closeness(memory, file), memory) for memory in at_path]
        for score, memory in scored:
            if score == 1.0:
                return MemoryMatch(memory.folder)
        scored = [(score + CLEARLY, memory) for score, memory in scored if score >= RENAME]
        if file.key and file.says_something:
            others = [memory for memory in self.having(KEY, file.key) if memory not in at_path]
            others = [memory for memory in others if file.key in memory.identity.keys]
            closeness = ((self.closeness(memory, file), memory) for memory in others)
            scored += [
                (2.0 if score == 1.0 else score, memory) for score, memory in closeness if score >= RENAME
            ]
        for _, memory in sorted(scored, key=lambda pair: -pair[0]):
            if memory in at_path:
                return MemoryMatch(memory.folder)
            if not self._is_held(memory) or self._is_case_only(memory.path):
                return memory.moved(f"moved from {memory.path}")
        return next(
            (MemoryMatch(memory.folder) for memory in at_path if self._is_worked_over(memory, file)), None
        )

    def moved_back(self) -> MemoryMatch | None:
        once = [memory for memory in self.having(EARLIER, self.file.path) if not self._is_held(memory)]
        scored = [(self.closeness(memory, self.file), memory.folder, memory) for memory in once]
        score, _, best = max(scored, default=(0.0, "", None), key=lambda entry: entry[:2])
        if best is None or score < RENAME or self._is_elsewhere(best):
            return None
        return best.moved(f"moved back from {best.path}")

    def by_git(self, at_path: list[_Candidate]) -> MemoryMatch | None:
        file = self.file
        for memory in at_path:
            commit = memory.identity.commit
            if (
                commit
                and same_through_history(file.worktree, file.path, file.data, commit)
                and not self._has_moved_away(memory)
                and not self._is_elsewhere(memory)
            ):
                return MemoryMatch(memory.folder, "another version from git's history")
        return self._exact_rename() or self._recorded_rename()

    def rewritten(self, at_path: list[_Candidate]) -> MemoryMatch | None:
        for memory in at_path:
            in_place = self.file.key in memory.identity.keys
            if (in_place or self._is_replaced(memory)) and not self._has_moved_away(memory):
                return MemoryMatch(memory.folder, REWRITTEN)
        return None

    def _exact_rename(self) -> MemoryMatch | None:
        """An exact rename, in git's words. If HEAD contains the file, both may have existed at the same time: then git
        must confirm the rename, also if another file has the old path now."""
        others = [memory for memory in self.having(BLOB, self.file.blob) if memory.path != self.file.path]
        others = [memory for memory in others if self.file.key not in memory.identity.keys]
        lost = [memory for memory in others if not self._is_held(memory)]
        if len(lost) != 1:
            return None
        [memory] = lost
        if not self._is_gone(memory):
            return (
                memory.moved(f"renamed from {memory.path} in git") if self._is_renamed_from(memory) else None
            )
        if self._is_committed() or self._is_elsewhere(memory):
            return None
        return memory.moved(f"same content as {memory.path}, which is gone")

    def _recorded_rename(self) -> MemoryMatch | None:
        """A rename in git's index or history, or one that git will report when this file is added."""
        file = self.file
        many = self.index.count(MANY) >= MANY
        known = [] if many else self._load(name for name, _ in self.index.paths())
        gone = [memory for memory in known if self._is_gone(memory)]
        commits = [None] if many else [memory.identity.commit for memory in gone]
        sources: list[_Candidate] = []

        def is_source(path: str, blob: str) -> bool:
            named = (
                memory for memory in self.having(PATH, path) if memory.path == path and self._is_gone(memory)
            )
            sources[:] = [memory for memory in named if self._was_in_git(memory, blob)]
            return bool(sources)

        if commits and renamed_from(file.worktree, file.path, is_source, commits):
            [memory, *_] = sources
            staged = blob_at(file.worktree, f":0:{file.path}")  # the renamed file, and not another one?
            if file.key in memory.identity.keys or (staged is not None and is_alike(staged, file.data)):
                return (
                    None if self._is_elsewhere(memory) else memory.moved(f"renamed from {memory.path} in git")
                )
        other = [memory for memory in known if memory not in gone and memory.path != file.path]
        displaced = [
            memory for memory in other if key_at(file.worktree, memory.path) not in memory.identity.keys
        ]
        if len(displaced) > _COMPARED:  # a clone or a restored backup: all inodes have changed
            displaced = []
        displaced = [
            memory for memory in displaced if not self._is_held(memory) and self._is_displaced(memory)
        ]
        return self._like_a_lost_one(gone, displaced)

    def _like_a_lost_one(self, gone: list[_Candidate], displaced: list[_Candidate]) -> MemoryMatch | None:
        lost = [*gone, *displaced]
        if not lost or len(lost) > _COMPARED:
            return None
        scored = sorted(
            ((self.closeness(memory, self.file), memory) for memory in lost), key=lambda pair: -pair[0]
        )
        score, best = scored[0]
        second = scored[1][0] if len(scored) > 1 else 0.0
        if score < max(RENAME, second + CLEARLY) or self._is_elsewhere(best):
            return None
        if self._is_committed() and (best in gone or not self._is_renamed_from(best)):
            return None  # both may have existed at the same time
        return best.moved(
            f"similar to {best.path}, which {'is gone' if best in gone else 'is now another file'}"
        )

    # -- similarity --

    def closeness(self, memory: _Candidate, file: WorkTreeFile) -> float:
        """1.0 for a version that the memory has seen, else the similarity of `file` to the last seen content."""
        if file.blob in memory.identity.blobs:
            return 1.0
        contents = last_contents(self.layout.memory / memory.folder, file.worktree)
        return min(max((similarity(content, file.data) for content in contents), default=0.0), 0.999)

    def _is_worked_over(self, memory: _Candidate, file: WorkTreeFile) -> bool:
        contents = last_contents(self.layout.memory / memory.folder, file.worktree)
        return any(worked_over(content, file.data) for content in contents)

    # -- the file of a memory now --

    def _is_held(self, memory: _Candidate) -> bool:
        """Whether the file of a memory is still at its path: similar to its last seen content, and not clearly more
        similar to the content that another memory saw with this inode."""
        current = file_at(self.file.worktree, memory.path)
        if current is None:
            return False
        closeness = self.closeness(memory, current)
        others = [other for other in self.having(KEY, current.key) if other.folder != memory.folder]
        for other in others:
            is_better = self.closeness(other, current) > closeness + CLEARLY
            if current.key in other.identity.keys and (other.identity.blob == current.blob or is_better):
                return False
        return closeness >= RENAME or self._is_worked_over(memory, current)

    def _is_gone(self, memory: _Candidate) -> bool:
        return memory.path != self.file.path and not key_at(self.file.worktree, memory.path)

    def _is_displaced(self, memory: _Candidate) -> bool:
        """Whether another file has the path now, according to git or the memory of that file."""
        if self._is_overwritten(memory) or self._is_renamed_from(memory):
            return True
        current = file_at(self.file.worktree, memory.path)
        if current is None:
            return False
        least = max(RENAME, self.closeness(memory, current) + CLEARLY)
        others = [*self.having(KEY, current.key), *self.having(PATH, current.path)]
        return any(
            self.closeness(other, current) >= least
            for other in others
            if other.folder != memory.folder
            and (other.path == current.path or current.key in other.identity.keys)
        )

    def _is_elsewhere(self, memory: _Candidate) -> bool:
        """Whether a missing file, by its inode and content, is at another changed path or an earlier one."""
        worktree, keys = self.file.worktree, memory.identity.keys.keys() - {self.file.key}
        for path in chain(memory.identity.earlier_paths, changed_files(worktree)):
            if path not in (self.file.path, memory.path) and key_at(worktree, path) in keys:
                current = file_at(worktree, path)
                if current is not None and self.closeness(memory, current) >= RENAME:
                    return True
        return False

    def _is_replaced(self, memory: _Candidate) -> bool:
        """Whether a program has replaced the file of a memory with a new one that shares some lines: git has the
        version that the memory saw there, and no other file claims the memory, the path or the inode."""
        file, worktree = self.file, self.file.worktree
        if any(file.key in other.identity.keys for other in self.having(KEY, file.key)):
            return False
        contents = last_contents(self.layout.memory / memory.folder, worktree)
        if not any(shares_lines(content, file.data) for content in contents):
            return False
        in_git = (blob_at(worktree, f"{version}:{file.path}") for version in ("HEAD", ":0"))
        blobs = {blob_hash(data, worktree.object_format) for data in in_git if data is not None}
        if not any(self._was_in_git(memory, blob) for blob in blobs) or self._is_overwritten(memory):
            return False
        if any(new == file.path for _, new in renames_since(worktree, "HEAD")):
            return False
        changed = [path for path in changed_files(worktree) if path != file.path]
        if len(changed) > _COMPARED:
            return False
        others = (path for path in (*memory.identity.earlier_paths, *changed) if path != file.path)
        files = (file_at(worktree, path) for path in others)
        return not any(current is not None and self.closeness(memory, current) >= RENAME for current in files)

    # -- the state in git --

    def _is_committed(self) -> bool:
        """Whether HEAD contains this file: then it may have existed at the same time as the missing one."""
        data = blob_at(self.file.worktree, f"HEAD:{self.file.path}")
        return data is not None and similarity(data, self.file.data) >= RENAME

    def _was_in_git(self, memory: _Candidate, blob: str) -> bool:
        """Whether the memory has seen the `blob` that git had at its path."""
        if blob in memory.identity.blobs:
            return True
        data = as_in_work_tree(self.file.worktree, blob, memory.path)
        if data is None:
            return False
        version = WorkTreeFile(self.file.worktree, memory.path, data, "")
        return self.closeness(memory, version) >= RENAME or self._is_worked_over(memory, version)

    def _renames(self, memory: _Candidate) -> list[tuple[str, str]]:
        return renames_since(self.file.worktree, memory.identity.commit or "HEAD")

    def _is_renamed_from(self, memory: _Candidate) -> bool:
        """Whether git sees this file as renamed from a path of a memory, since its last edit or HEAD."""
        paths = {memory.path, *memory.identity.earlier_paths}
        return any(new == self.file.path and old in paths for old, new in self._renames(memory))

    def _has_moved_away(self, memory: _Candidate) -> bool:
        """Whether git sees another path as the new name of a memory's file: then the same path or inode is a
        coincidence."""
        paths = {memory.path, *memory.identity.earlier_paths}
        return any(new != self.file.path and old in paths for old, new in self._renames(memory))

    def _is_overwritten(self, memory: _Candidate) -> bool:
        """Whether git sees another file as renamed to the path of a memory."""
        earlier = memory.identity.earlier_paths
        return any(new == memory.path and old not in earlier for old, new in self._renames(memory))

    def _is_case_only(self, path: str) -> bool:
        """Whether `path` differs only in case from this file's path, on a file system that ignores case."""
        folder, _, name = path.rpartition("/")
        if path.casefold() != self.file.path.casefold():
            return False
        try:
            return all(entry.name != name for entry in (self.file.worktree.top / folder).iterdir())
        except OSError:
            return False
