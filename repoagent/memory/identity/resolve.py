"""Which memory belongs to a file? Content decides; paths and inodes only suggest candidates.

In this order: the same path with the same content; an inode known for another file, with exactly this content, or with
content clearly more similar than that of the path's own memory (which tells swapped names apart); a path with similar
or reworked content; an earlier path; what git knows of renames; content similar to that of a file whose path is gone or
now has another file; a file rewritten in place, or replaced by a new one that keeps some of its lines. git is believed
only where the memory saw what git had at the old name, and the file is what git has at the new one or has the inode. If
a file elsewhere has the inode and the content, the memory is that file's; if nothing tells two apart, neither matches.
Paths are those of this work tree, because a file may have another name in another one.
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
    likeness,
    shares_lines,
    similarity,
    worked_over,
)
from repoagent.storage.layout import Layout

CLEARLY = 0.05  # by so much more alike must one content be to be preferred
MANY = 1000  # if there are more memories, it is not looked up which have lost their file
_COMPARED = 50  # files that are gone or changed, and are compared with one; git limits renames, too


@dataclass(frozen=True)
class WorkTreeFile:
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


def file_at(worktree: WorkTree, path: str) -> WorkTreeFile | None:
    """The file at `path` now; None for none, and for a folder, a link or a submodule."""
    try:
        data = read_source(worktree, path).data
    except (Refused, OSError, ValueError):
        return None
    return None if data is None else WorkTreeFile(worktree, path, data, key_at(worktree, path))


@dataclass(frozen=True)
class MemoryMatch:
    """The memory in the folder named `folder`. `moved`: its file is now at the path asked for. `reason` is empty where
    path and content simply agree."""

    folder: str
    reason: str = ""
    moved: bool = False


class _Candidate(NamedTuple):
    """A memory: its folder, what it knows, and the path of its file in this work tree."""

    folder: str
    identity: Identity
    path: str

    def moved(self, reason: str) -> MemoryMatch:
        return MemoryMatch(self.folder, reason, moved=True)


def find(layout: Layout, index: IdentityIndex, file: WorkTreeFile) -> MemoryMatch | None:
    """The memory of `file`, or None for a new one. Reads files, asks git when it must, writes nothing."""
    search = _Search(layout, index, file)
    here = [each for each in search.having(PATH, file.path) if each.path == file.path]
    match = search.by_path_or_inode(here)
    if match is None and file.says_something:
        match = search.moved_back() or search.by_git(here)
    return match or search.rewritten(here)


@dataclass(frozen=True)
class _Search:
    """A file, and the memories to find its own among."""

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

    # -- the rules, the surest first --

    def by_path_or_inode(self, here: list[_Candidate]) -> MemoryMatch | None:
        file = self.file
        scored = [(self.closeness(each, file), each) for each in here]
        for score, each in scored:
            if score == 1.0:
                return MemoryMatch(each.folder)
        scored = [(score + CLEARLY, each) for score, each in scored if score >= RENAME]
        if file.key and file.says_something:
            others = [each for each in self.having(KEY, file.key) if each not in here]
            others = [each for each in others if file.key in each.identity.keys]
            closeness = ((self.closeness(each, file), each) for each in others)
            scored += [(2.0 if score == 1.0 else score, each) for score, each in closeness if score >= RENAME]
        for _, each in sorted(scored, key=lambda pair: -pair[0]):
            if each in here:
                return MemoryMatch(each.folder)
            if not self._is_held(each) or self._is_case_only(each.path):
                return each.moved(f"moved from {each.path}")
        return next((MemoryMatch(each.folder) for each in here if self._is_worked_over(each, file)), None)

    def moved_back(self) -> MemoryMatch | None:
        once = [each for each in self.having(EARLIER, self.file.path) if not self._is_held(each)]
        scored = [(self.closeness(each, self.file), each.folder, each) for each in once]
        score, _, best = max(scored, default=(0.0, "", None), key=lambda entry: entry[:2])
        if best is None or score < RENAME or self._is_elsewhere(best):
            return None
        return best.moved(f"moved back from {best.path}")

    def by_git(self, here: list[_Candidate]) -> MemoryMatch | None:
        file = self.file
        for each in here:
            commit = each.identity.commit
            if (
                commit
                and same_through_history(file.worktree, file.path, file.data, commit)
                and not self._has_moved_away(each)
                and not self._is_elsewhere(each)
            ):
                return MemoryMatch(each.folder, "another version from git's history")
        return self._exact_rename() or self._recorded_rename()

    def rewritten(self, here: list[_Candidate]) -> MemoryMatch | None:
        for each in here:
            in_place = bool(self.file.key) and self.file.key in each.identity.keys
            if (in_place or self._is_replaced(each)) and not self._has_moved_away(each):
                return MemoryMatch(each.folder, REWRITTEN)
        return None

    def _exact_rename(self) -> MemoryMatch | None:
        """An exact rename, as git calls it. If HEAD has the file, it may have existed together with the old one: then
        git must confirm the rename, as it must if the old path has another file now."""
        same = [each for each in self.having(BLOB, self.file.blob) if self._is_lost(each)]
        if len(same) != 1:
            return None
        [each] = same
        if not self._is_gone(each):
            return each.moved(f"renamed from {each.path} in git") if self._is_renamed_from(each) else None
        if self._is_committed() or self._is_elsewhere(each):
            return None
        return each.moved(f"same content as {each.path}, which is gone")

    def _recorded_rename(self) -> MemoryMatch | None:
        """A rename in git's index or history, or one that git will see when this file is added."""
        file = self.file
        many = self.index.count(MANY) >= MANY
        known = [] if many else self._load(name for name, _ in self.index.paths())
        gone = [each for each in known if self._is_gone(each)]
        commits = [None] if many else [each.identity.commit for each in gone]
        sources: list[_Candidate] = []

        def is_source(path: str, blob: str) -> bool:
            named = (each for each in self.having(PATH, path) if each.path == path and self._is_gone(each))
            sources[:] = [each for each in named if self._was_in_git(each, blob)]
            return bool(sources)

        if commits and renamed_from(file.worktree, file.path, is_source, commits):
            [each, *_] = sources
            if file.key in each.identity.keys or self._is_in_index():  # rewritten in place, or what git has
                return None if self._is_elsewhere(each) else each.moved(f"renamed from {each.path} in git")
        other = [each for each in known if each not in gone and each.path != file.path]
        displaced = [each for each in other if key_at(file.worktree, each.path) not in each.identity.keys]
        if len(displaced) > _COMPARED:  # a clone, a restored backup: all of them have other inodes
            displaced = []
        displaced = [each for each in displaced if not self._is_held(each) and self._is_displaced(each)]
        return self._like_a_lost_one(gone, displaced)

    def _like_a_lost_one(self, gone: list[_Candidate], displaced: list[_Candidate]) -> MemoryMatch | None:
        lost = [*gone, *displaced]
        if not lost or len(lost) > _COMPARED:
            return None
        scored = sorted(((self.closeness(each, self.file), each) for each in lost), key=lambda pair: -pair[0])
        score, best = scored[0]
        second = scored[1][0] if len(scored) > 1 else 0.0
        if score < max(RENAME, second + CLEARLY) or self._is_elsewhere(best):
            return None
        if self._is_committed() and (best in gone or not self._is_renamed_from(best)):
            return None  # it may have existed together with the lost one
        return best.moved(
            f"similar to {best.path}, which {'is gone' if best in gone else 'is now another file'}"
        )

    # -- how alike --

    def closeness(self, each: _Candidate, file: WorkTreeFile) -> float:
        """1.0 for a version the memory has seen, else how alike `file` is to what it last saw."""
        if file.blob in each.identity.blobs:
            return 1.0
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return min(max((likeness(content, file.data) for content in contents), default=0.0), 0.999)

    def _is_worked_over(self, each: _Candidate, file: WorkTreeFile) -> bool:
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return any(worked_over(content, file.data) for content in contents)

    def _is_alike(self, each: _Candidate, file: WorkTreeFile) -> bool:
        return self.closeness(each, file) >= RENAME or self._is_worked_over(each, file)

    # -- what has become of the file of a memory --

    def _is_held(self, each: _Candidate) -> bool:
        """Whether the file of a memory is still where it was: like what it last saw, and not clearly more like what
        another memory saw on that inode."""
        there = file_at(self.file.worktree, each.path)
        if there is None:
            return False
        closeness = self.closeness(each, there)
        others = [other for other in self.having(KEY, there.key) if other.folder != each.folder]
        for other in others:
            is_better = self.closeness(other, there) > closeness + CLEARLY
            if there.key in other.identity.keys and (other.identity.blob == there.blob or is_better):
                return False
        return closeness >= RENAME or self._is_worked_over(each, there)

    def _is_gone(self, each: _Candidate) -> bool:
        return each.path != self.file.path and not key_at(self.file.worktree, each.path)

    def _is_lost(self, each: _Candidate) -> bool:
        """Whether the path is gone, or another file has it by now: neither the content is like it nor the inode."""
        in_place = bool(self.file.key) and self.file.key in each.identity.keys
        return each.path != self.file.path and not in_place and not self._is_held(each)

    def _is_displaced(self, each: _Candidate) -> bool:
        """Whether another file has the path by now, as git or the memory of that file shows."""
        if self._is_overwritten(each) or self._is_renamed_from(each):
            return True
        there = file_at(self.file.worktree, each.path)
        if there is None:
            return False
        least = max(RENAME, self.closeness(each, there) + CLEARLY)
        others = [*self.having(KEY, there.key), *self.having(PATH, there.path)]
        return any(
            self.closeness(other, there) >= least
            for other in others
            if other.folder != each.folder and (other.path == there.path or there.key in other.identity.keys)
        )

    def _is_elsewhere(self, each: _Candidate) -> bool:
        """Whether the inode of a gone file is at another changed name, or one it had, with its content: it is there."""
        worktree, keys = self.file.worktree, each.identity.keys.keys() - {self.file.key}
        for path in chain(each.identity.earlier_paths, changed_files(worktree)):
            if path not in (self.file.path, each.path) and key_at(worktree, path) in keys:
                there = file_at(worktree, path)
                if there is not None and self.closeness(each, there) >= RENAME:
                    return True
        return False

    def _is_replaced(self, each: _Candidate) -> bool:
        """Whether a program has put a new file, with some of the text, at the path of a memory: git has what the memory
        saw there, and no other file claims the memory, the path or the inode."""
        file, worktree = self.file, self.file.worktree
        if any(file.key in other.identity.keys for other in self.having(KEY, file.key)):
            return False
        contents = last_contents(self.layout.memory / each.folder, worktree)
        if not any(shares_lines(content, file.data) for content in contents):
            return False
        in_git = (blob_at(worktree, f"{version}:{file.path}") for version in ("HEAD", ":0"))
        blobs = {blob_hash(data, worktree.object_format) for data in in_git if data is not None}
        if not any(self._was_in_git(each, blob) for blob in blobs) or self._is_overwritten(each):
            return False
        if any(new == file.path for _, new in renames_since(worktree, "HEAD")):
            return False
        changed = [path for path in changed_files(worktree) if path != file.path]
        if len(changed) > _COMPARED:
            return False
        others = (path for path in (*each.identity.earlier_paths, *changed) if path != file.path)
        files = (file_at(worktree, path) for path in others)
        return not any(there is not None and self.closeness(each, there) >= RENAME for there in files)

    # -- what git says --

    def _is_committed(self) -> bool:
        """Whether HEAD has this file at the path: then it may have existed at the same time as the missing one."""
        data = blob_at(self.file.worktree, f"HEAD:{self.file.path}")
        return data is not None and similarity(data, self.file.data) >= RENAME

    def _is_in_index(self) -> bool:
        """Whether git's index has this file, and no other one, at the path: only of that it can tell where it was."""
        data = blob_at(self.file.worktree, f":0:{self.file.path}")
        return data is not None and is_alike(data, self.file.data)

    def _was_in_git(self, each: _Candidate, blob: str) -> bool:
        """Whether the `blob` that git had at the path of a memory is what the memory saw there."""
        if blob in each.identity.blobs:
            return True
        data = as_in_work_tree(self.file.worktree, blob, each.path)
        return data is not None and self._is_alike(
            each, WorkTreeFile(self.file.worktree, each.path, data, "")
        )

    def _renames(self, each: _Candidate) -> list[tuple[str, str]]:
        return renames_since(self.file.worktree, each.identity.commit or "HEAD")

    def _is_renamed_from(self, each: _Candidate) -> bool:
        """Whether to git this file had a path of a memory in HEAD, or when that was last edited."""
        paths = {each.path, *each.identity.earlier_paths}
        return any(new == self.file.path and old in paths for old, new in self._renames(each))

    def _has_moved_away(self, each: _Candidate) -> bool:
        """Whether git knows another name for the file of a memory: that path or inode agrees here is luck then."""
        paths = {each.path, *each.identity.earlier_paths}
        return any(new != self.file.path and old in paths for old, new in self._renames(each))

    def _is_overwritten(self, each: _Candidate) -> bool:
        """Whether to git another file has come to the path of a memory."""
        earlier = each.identity.earlier_paths
        return any(new == each.path and old not in earlier for old, new in self._renames(each))

    def _is_case_only(self, path: str) -> bool:
        """Whether `path` is the old spelling of this file's name, on a file system that takes both for one."""
        folder, _, name = path.rpartition("/")
        if path.casefold() != self.file.path.casefold():
            return False
        try:
            return all(entry.name != name for entry in (self.file.worktree.top / folder).iterdir())
        except OSError:
            return False
