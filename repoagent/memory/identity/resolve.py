"""Which memory belongs to a file? Content decides; paths and inodes only suggest candidates.

The candidates, in order: a memory of the same path with the same content; one with the inode and either exactly this
content, or content clearly more similar than that of the memory at this path (this detects swapped names); the same
path with similar or reworked content; an earlier path; renames in git; content similar to that of a file whose path is
gone or now has another file; a file rewritten in place. A rename in git counts only if the memory saw git's version at
the old path, and the file matches git's version at the new one or has the inode. If a file elsewhere has the inode and
the content, the memory belongs to that file; if two memories match equally, neither is used. Paths are those of this
work tree, because a file may have a different name in another work tree.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import blob_hash, read_source
from repoagent.git.index import paths_by_blob
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity import renames
from repoagent.memory.identity.memory_index import BLOB, EARLIER, KEY, PATH, IdentityIndex
from repoagent.memory.identity.record import REWRITTEN, Identity
from repoagent.memory.identity.renames import RENAME
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
    """The regular file at `path`; None if there is none, or only a folder, a link or a submodule."""
    try:
        data = read_source(worktree, path).data
    except (Refused, OSError, ValueError):
        return None
    return None if data is None else WorkTreeFile(worktree, path, data, key_at(worktree, path))


@dataclass(frozen=True)
class MemoryMatch:
    """The folder of the memory that matches a file.

    `moved`: whether the file had another path before. `reason` is "" if path and content match.
    """

    folder: str
    reason: str = ""
    moved: bool = False


class _Candidate(NamedTuple):
    """A memory: its folder, its identity, and the path of its file in this work tree."""

    folder: str
    identity: Identity
    path: str

    def has(self, file: WorkTreeFile) -> bool:
        """Whether the memory knows the inode of `file`."""
        return file.key in self.identity.keys

    def stays(self, reason: str = "") -> MemoryMatch:
        return MemoryMatch(self.folder, reason)

    def moved(self, reason: str) -> MemoryMatch:
        return MemoryMatch(self.folder, reason, moved=True)


def find_memory(layout: Layout, index: IdentityIndex, file: WorkTreeFile) -> MemoryMatch | None:
    """The memory of `file`; None if it is new. Reads files, runs git only if needed, and writes nothing."""
    return next(_Search(layout, index, file).matches(), None)


def find_unchanged(layout: Layout, index: IdentityIndex, file: WorkTreeFile) -> MemoryMatch | None:
    """Return the memory that has seen this content at this path, or None. The index may be out of date."""
    at_path = _Search(layout, index, file).at_path
    return next((memory.stays() for memory in at_path if file.blob in memory.identity.blobs), None)


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

    @property
    def at_path(self) -> list[_Candidate]:
        """The memories whose path is that of the file."""
        return [memory for memory in self.having(PATH, self.file.path) if memory.path == self.file.path]

    # -- the candidates, most reliable first --

    def matches(self) -> Iterator[MemoryMatch]:
        """The candidates that pass their tests; the first one counts."""
        file, at_path = self.file, self.at_path
        scored = [(self.closeness(memory, file), memory) for memory in at_path]
        yield from (memory.stays() for score, memory in scored if score == 1.0)
        scored = [(score + CLEARLY, memory) for score, memory in scored if score >= RENAME]
        has_content = bool(file.data.strip())  # that of an empty file cannot identify it
        if file.key and has_content:
            others = [memory for memory in self.having(KEY, file.key) if memory not in at_path]
            closeness = ((self.closeness(memory, file), memory) for memory in others if memory.has(file))
            scored += [
                (2.0 if score == 1.0 else score, memory) for score, memory in closeness if score >= RENAME
            ]
        for _, memory in sorted(scored, key=lambda pair: -pair[0]):
            if memory in at_path:
                yield memory.stays()
            elif not self._is_held(memory) or self._is_case_only(memory.path):
                yield memory.moved(f"moved from {memory.path}")
        yield from (memory.stays() for memory in at_path if self._is_worked_over(memory, file))
        if has_content:
            yield from self._moved_back()
            former = (memory for memory in at_path if self._is_in_history(memory))
            yield from (memory.stays("another version from git's history") for memory in former)
            yield from self._exact_rename()
            yield from self._renamed_or_similar()
        for memory in at_path:
            if memory.has(file) and not self._has_moved_away(memory):
                yield memory.stays(REWRITTEN)

    def _moved_back(self) -> Iterator[MemoryMatch]:
        once = [memory for memory in self.having(EARLIER, self.file.path) if not self._is_held(memory)]
        scored = [(self.closeness(memory, self.file), memory.folder, memory) for memory in once]
        score, _, best = max(scored, default=(0.0, "", None), key=lambda entry: entry[:2])
        if best is not None and score >= RENAME and not self._is_elsewhere(best):
            yield best.moved(f"moved back from {best.path}")

    def _exact_rename(self) -> Iterator[MemoryMatch]:
        """An exact rename. If HEAD contains the file, both may have existed at once: git must confirm it."""
        others = [memory for memory in self.having(BLOB, self.file.blob) if memory.path != self.file.path]
        lost = [memory for memory in others if not memory.has(self.file) and not self._is_held(memory)]
        if len(lost) != 1:
            return
        [memory] = lost
        if not self._is_gone(memory):
            if self._is_renamed_from(memory):
                yield memory.moved(f"renamed from {memory.path} in git")
        elif not self._is_committed() and not self._is_elsewhere(memory):
            yield memory.moved(f"same content as {memory.path}, which is gone")

    def _renamed_or_similar(self) -> Iterator[MemoryMatch]:
        """A rename in git's index or history, or one that git will report when this file is added."""
        file, is_large = self.file, self.index.count(MANY) >= MANY
        known = [] if is_large else self._load(name for name, _ in self.index.paths())
        gone = [memory for memory in known if self._is_gone(memory)]
        source = self._source_in_git({None} if is_large else {memory.identity.commit for memory in gone})
        if source is not None:
            staged = renames.blob_at(file.worktree, f":0:{file.path}")
            # the renamed file, and not another one?
            if source.has(file) or (staged is not None and renames.is_alike(staged, file.data)):
                if not self._is_elsewhere(source):
                    yield source.moved(f"renamed from {source.path} in git")
                return
        displaced = [
            memory
            for memory in known
            if memory not in gone
            and memory.path != file.path
            and key_at(file.worktree, memory.path) not in memory.identity.keys
        ]
        if len(displaced) > _COMPARED:  # a clone or a restored backup: all inodes have changed
            displaced = []
        displaced = [
            memory for memory in displaced if not self._is_held(memory) and self._is_displaced(memory)
        ]
        lost = [*gone, *displaced]
        if not 0 < len(lost) <= _COMPARED:
            return
        scored = [(self.closeness(memory, file), memory) for memory in lost]
        (score, best), *others = sorted(scored, key=lambda pair: -pair[0])
        second = others[0][0] if others else 0.0
        if score < max(RENAME, second + CLEARLY) or self._is_elsewhere(best):
            return
        if self._is_committed() and (best in gone or not self._is_renamed_from(best)):
            return  # both may have existed at the same time
        yield best.moved(
            f"similar to {best.path}, which {'is gone' if best in gone else 'is now another file'}"
        )

    def _source_in_git(self, commits: set[str | None]) -> _Candidate | None:
        """The memory of the missing file that git has as the source; `commits` are as for `former_names`."""
        if not commits:
            return None
        for path, blob in renames.former_names(self.file.worktree, self.file.path, commits):
            for memory in self.having(PATH, path):
                if memory.path == path and self._is_gone(memory) and self._was_in_git(memory, blob):
                    return memory
        return None

    # -- similarity --

    def closeness(self, memory: _Candidate, file: WorkTreeFile) -> float:
        """1.0 for a version that the memory has seen, else the similarity of `file` to the last seen content."""
        if file.blob in memory.identity.blobs:
            return 1.0
        scores = (renames.similarity(content, file.data) for content in self._contents(memory))
        return min(max(scores, default=0.0), 0.999)

    def _contents(self, memory: _Candidate) -> list[bytes]:
        return renames.last_contents(self.layout.memory / memory.folder, self.file.worktree)

    def _is_worked_over(self, memory: _Candidate, file: WorkTreeFile) -> bool:
        return any(renames.worked_over(content, file.data) for content in self._contents(memory))

    # -- the file of a memory now --

    def _is_held(self, memory: _Candidate) -> bool:
        """Whether a memory's file is at its path, and not rather that of another memory by its inode."""
        current = file_at(self.file.worktree, memory.path)
        if current is None:
            return False
        closeness = self.closeness(memory, current)
        rivals = [other for other in self.having(KEY, current.key) if other.folder != memory.folder]
        for rival in (rival for rival in rivals if rival.has(current)):
            is_last = rival.identity.blob == current.blob
            if is_last or self.closeness(rival, current) > closeness + CLEARLY:
                return False
        return closeness >= RENAME or self._is_worked_over(memory, current)

    def _is_gone(self, memory: _Candidate) -> bool:
        """Whether there is no file at a memory's path, but nothing, a folder or a link."""
        if memory.path == self.file.path:
            return False
        try:
            return not stat.S_ISREG(os.lstat(self.file.worktree.top / memory.path).st_mode)
        except OSError:
            return True

    def _is_displaced(self, memory: _Candidate) -> bool:
        """Whether another file has the path now, according to git, the memory of that file, or its text."""
        if self._is_overwritten(memory) or self._is_renamed_from(memory):
            return True
        current = file_at(self.file.worktree, memory.path)
        if current is None:
            return False
        least = max(RENAME, self.closeness(memory, current) + CLEARLY)
        others = [*self.having(KEY, current.key), *self.having(PATH, current.path)]
        if any(
            self.closeness(other, current) >= least
            for other in others
            if other.folder != memory.folder and (other.path == current.path or other.has(current))
        ):
            return True
        return not replace(self, file=current)._is_in_history(memory)

    def _is_elsewhere(self, memory: _Candidate) -> bool:
        """Whether a missing file, by inode and content, is at a changed, earlier or equal path."""
        worktree, identity = self.file.worktree, memory.identity
        keys, equal = identity.keys.keys() - {self.file.key}, paths_by_blob(worktree).get(identity.blob, ())
        for path in chain(identity.earlier_paths, equal, renames.changed_files(worktree)):
            if path not in (self.file.path, memory.path) and key_at(worktree, path) in keys:
                current = file_at(worktree, path)
                if current is not None and self.closeness(memory, current) >= RENAME:
                    return True
        return False

    # -- the state in git --

    def _is_in_history(self, memory: _Candidate) -> bool:
        """Whether the file is a version from git's history of the file at this path."""
        file, commit = self.file, memory.identity.commit
        if not commit or not renames.same_through_history(file.worktree, file.path, file.data, commit):
            return False
        return not self._has_moved_away(memory) and not self._is_elsewhere(memory)

    def _is_committed(self) -> bool:
        """Whether HEAD contains this file: then it may have existed at the same time as the missing one."""
        data = renames.blob_at(self.file.worktree, f"HEAD:{self.file.path}")
        return data is not None and renames.similarity(data, self.file.data) >= RENAME

    def _was_in_git(self, memory: _Candidate, blob: str) -> bool:
        """Whether the memory has seen the `blob` that git had at its path."""
        if blob in memory.identity.blobs:
            return True
        data = renames.as_in_work_tree(self.file.worktree, blob, memory.path)
        if data is None:
            return False
        version = WorkTreeFile(self.file.worktree, memory.path, data, "")
        return self.closeness(memory, version) >= RENAME or self._is_worked_over(memory, version)

    def _renames(self, memory: _Candidate) -> list[tuple[bool, str]]:
        """(is an own path, new path) for each rename in git since the last edit of a memory's file."""
        paths = {memory.path, *memory.identity.earlier_paths}
        in_git = renames.renames_since(self.file.worktree, memory.identity.commit or "HEAD")
        return [(old in paths, new) for old, new in in_git]

    def _is_renamed_from(self, memory: _Candidate) -> bool:
        """Whether git sees this file as renamed from a path of a memory."""
        return (True, self.file.path) in self._renames(memory)

    def _has_moved_away(self, memory: _Candidate) -> bool:
        """Whether git has another new path for a memory's file: then path or inode is a coincidence."""
        return any(is_own and new != self.file.path for is_own, new in self._renames(memory))

    def _is_overwritten(self, memory: _Candidate) -> bool:
        """Whether git sees another file as renamed to the path of a memory."""
        return (False, memory.path) in self._renames(memory)

    def _is_case_only(self, path: str) -> bool:
        """Whether `path` differs only in case from this file's path, on a file system that ignores case."""
        folder, _, name = path.rpartition("/")
        if path.casefold() != self.file.path.casefold():
            return False
        try:
            return all(entry.name != name for entry in (self.file.worktree.top / folder).iterdir())
        except OSError:
            return False
