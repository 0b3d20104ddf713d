"""Which memory belongs to a file? Content decides; paths and inodes are only where to look.

In this order: the same path with the same content; an inode that is known for another file, with exactly the content
that is here, or content that is clearly more alike than what the path had (that is how two swapped names are told
apart); a path with content that is alike, or was worked over; a path that the file had before; what git knows; a file
that was rewritten in place. Paths are those of this work tree: in another one a file may have another name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from repoagent.errors import Refused
from repoagent.memory import ancestry
from repoagent.memory.content import is_sample, last_contents, likeness
from repoagent.memory.identity import REWRITTEN, Identity
from repoagent.memory.index import BLOB, EARLIER, KEY, PATH, Index
from repoagent.memory.similar import RENAME, similarity, worked_over
from repoagent.repo.source import blob_hash, read_source
from repoagent.repo.worktree import WorkTree
from repoagent.store import Layout


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


def find(layout: Layout, index: Index, file: File) -> Found | None:
    """The memory of `file`, or None for a new one. Reads files, asks git when it must, writes nothing."""
    return _Search(layout, index, file).run()


_CLEARLY = 0.05  # by so much more alike is an inode's content believed before the path's
_MANY = 1000  # of more memories it is not looked up which have lost their file
_COMPARED = 50  # files that are gone are compared with a new one, as git does with what is added
_BACKUP = re.compile(r"(~|\.~\d+~|\.bak|\.orig|\.old|\.save|\.BAK)")


class _Candidate(NamedTuple):
    folder: str
    identity: Identity
    path: str  # in this work tree


@dataclass(frozen=True)
class _Search:
    layout: Layout
    index: Index
    file: File

    def run(self) -> Found | None:
        here = [each for each in self._with(PATH, self.file.path) if each.path == self.file.path]
        return (
            self._same_blob(here)
            or self._by_inode(here, exactly=True)
            or self._alike(here)
            or self._by_inode(here, exactly=False)
            or self._worked_over(here)
            or self._moved_back()
            or self._by_git(here)
            or self._rewritten(here)
        )

    def _same_blob(self, here: list[_Candidate]) -> Found | None:
        return next((Found(each.folder) for each in here if self._closeness(each, self.file) == 1.0), None)

    def _alike(self, here: list[_Candidate]) -> Found | None:
        score, best = self._closest(here)
        if best is None:
            return None
        return self._by_inode(here, exactly=False, least=score + _CLEARLY) or Found(best.folder)

    def _worked_over(self, here: list[_Candidate]) -> Found | None:
        return next((Found(each.folder) for each in here if self._is_worked_over(each, self.file)), None)

    def _is_worked_over(self, each: _Candidate, file: File) -> bool:
        """Not for a large file: what is kept of it shows how alike it is, not what was left out."""
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return any(worked_over(kept, file.data) for kept in contents if not is_sample(kept))

    def _by_inode(self, here: list[_Candidate], *, exactly: bool, least: float = RENAME) -> Found | None:
        file = self.file
        if not file.key or not file.says_something:
            return None
        folders = {each.folder for each in here}
        others = [each for each in self._with(KEY, file.key) if each.folder not in folders]
        _, each = self._closest(
            [one for one in others if file.key in one.identity.keys], 1.0 if exactly else least
        )
        if each is None:
            return None
        if key_at(file.worktree, each.path) == file.key and not self._is_case_only(each.path):
            return Found(each.folder, f"a hard link of {each.path}")
        if self._is_backup_of(each.path) or self._held(each):
            return None
        return Found(each.folder, f"moved from {each.path}", moved=True)

    def _is_case_only(self, path: str) -> bool:
        """Whether `path` is the old spelling of this file's name, on a file system that takes both for one."""
        folder, _, name = path.rpartition("/")
        if path.casefold() != self.file.path.casefold():
            return False
        try:
            return all(path.name != name for path in (self.file.worktree.top / folder).iterdir())
        except OSError:
            return False

    def _is_backup_of(self, path: str) -> bool:
        """Whether this is what an editor has put aside of `path`, and there is a file there."""
        named = self.file.path.startswith(path) and _BACKUP.fullmatch(self.file.path[len(path) :])
        return bool(named) and bool(key_at(self.file.worktree, path))

    def _moved_back(self) -> Found | None:
        if not self.file.says_something:
            return None
        once = [each for each in self._with(EARLIER, self.file.path) if not self._held(each)]
        _, each = self._closest(once)
        return None if each is None else Found(each.folder, f"moved back from {each.path}", moved=True)

    def _by_git(self, here: list[_Candidate]) -> Found | None:
        file = self.file
        if not file.says_something:
            return None
        for each in here:
            commit = each.identity.commit
            if commit and ancestry.same_through_history(file.worktree, file.path, file.data, commit):
                return Found(each.folder, "another version from git's history")
        return self._exact_rename() or self._recorded_rename()

    def _exact_rename(self) -> Found | None:
        """What git calls an exact rename. A file that HEAD has may have been beside the old one: there git must say
        so, as it must where the old path has another file by now."""
        file = self.file
        same = [each for each in self._with(BLOB, file.blob) if self._is_lost(each)]
        if len(same) != 1:
            return None
        old, commit = same[0].path, same[0].identity.commit
        if self._is_gone(same[0]):
            if self._is_committed() or self._is_elsewhere(same[0]):
                return None
            return Found(same[0].folder, f"the same content as {old}, which is gone", moved=True)
        if commit is None or (old, file.path) not in ancestry.renames_since(file.worktree, commit):
            return None
        return Found(same[0].folder, f"renamed from {old} in git", moved=True)

    def _recorded_rename(self) -> Found | None:
        """A rename in git's index or history, or one that git will see when this file is added."""
        file = self.file
        if self.index.count(_MANY) >= _MANY:
            gone: list[_Candidate] = []
            commits: list[str | None] = [None]
        else:
            gone = [
                each for name, _ in self.index.paths() for each in self._load(name) if self._is_gone(each)
            ]
            if not gone:
                return None  # there is nothing to ask git for
            commits = [each.identity.commit for each in gone]
        lookup = _Gone(self)
        old = ancestry.renamed_from(file.worktree, file.path, lookup, commits)
        if old is not None:
            if self._is_elsewhere(lookup.at(old)[0]):
                return None
            return Found(lookup.at(old)[0].folder, f"renamed from {old} in git", moved=True)
        return self._like_a_gone_one(gone) if len(gone) <= _COMPARED else None

    def _like_a_gone_one(self, gone: list[_Candidate]) -> Found | None:
        scored = sorted(((self._closeness(each, self.file), each) for each in gone), key=lambda one: -one[0])
        best, second = (*scored, (0.0, None), (0.0, None))[:2]
        if best[0] < max(RENAME, second[0] + _CLEARLY) or best[1] is None:
            return None
        if self._is_committed() or self._is_elsewhere(best[1]):
            return None
        return Found(best[1].folder, f"like {best[1].path}, which is gone", moved=True)

    def _rewritten(self, here: list[_Candidate]) -> Found | None:
        agreed = (each for each in here if self._is_in_place(each) and not self._has_moved_away(each))
        return next((Found(each.folder, REWRITTEN) for each in agreed), None)

    def _has_moved_away(self, each: _Candidate) -> bool:
        """Whether git knows another name for what was here: that the inode agrees is luck then."""
        commit = each.identity.commit
        return commit is not None and any(
            old == each.path for old, _ in ancestry.renames_since(self.file.worktree, commit)
        )

    def _is_in_place(self, each: _Candidate) -> bool:
        """Whether the file has its inode still, or an editor has put that aside under a backup's name."""
        if self.file.key and self.file.key in each.identity.keys:
            return True
        backups = (f"{each.path}{ending}" for ending in ("~", ".bak", ".orig"))
        return any(key_at(self.file.worktree, backup) in each.identity.keys for backup in backups)

    def _is_gone(self, each: _Candidate) -> bool:
        return each.path != self.file.path and not key_at(self.file.worktree, each.path)

    def _is_committed(self) -> bool:
        """Whether HEAD has this file, and no other one, at the path: then it may have been beside what is gone."""
        there = ancestry.in_head(self.file.worktree, self.file.path)
        return there is not None and similarity(there, self.file.data) >= RENAME

    def _is_elsewhere(self, each: _Candidate) -> bool:
        """Whether the inode of a gone file is at another changed name, with its content: it has moved there."""
        keys = each.identity.keys.keys() - {self.file.key}
        for path in ancestry.changed_files(self.file.worktree):
            if path not in (self.file.path, each.path) and key_at(self.file.worktree, path) in keys:
                there = self._file_at(path)
                if there is not None and self._closeness(each, there) >= RENAME:
                    return True
        return False

    def _is_lost(self, each: _Candidate) -> bool:
        """Whether the path is gone, or another file has it by now: neither the content is like it nor the inode."""
        if self._is_gone(each):
            return True
        return each.path != self.file.path and not self._is_in_place(each) and not self._held(each)

    def _held(self, each: _Candidate) -> bool:
        """Whether the file of a memory is still where it was: like what it last saw, and not clearly more like what
        another memory saw on that inode."""
        there = self._file_at(each.path)
        if there is None:
            return False
        closeness = self._closeness(each, there)
        for other in self._with(KEY, there.key):
            if other.folder == each.folder or there.key not in other.identity.keys:
                continue
            if other.identity.blob == there.blob or self._closeness(other, there) > closeness + _CLEARLY:
                return False
        return closeness >= RENAME or self._is_worked_over(each, there)

    def _file_at(self, path: str) -> File | None:
        try:
            data = read_source(self.file.worktree, path).data
        except Refused:  # a folder, a link, a submodule by now
            return None
        return (
            None if data is None else File(self.file.worktree, path, data, key_at(self.file.worktree, path))
        )

    def _closest(
        self, candidates: Iterable[_Candidate], least: float = RENAME
    ) -> tuple[float, _Candidate | None]:
        scored = [(self._closeness(each, self.file), each.folder, each) for each in candidates]
        score, _, best = max(scored, default=(0.0, "", None), key=lambda one: one[:2])
        return (score, best) if score >= least else (score, None)

    def _closeness(self, each: _Candidate, file: File) -> float:
        """1.0 for a version the memory has seen, else how alike `file` is to what it last saw."""
        if file.blob in each.identity.blobs:
            return 1.0
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return min(max((likeness(kept, file.data) for kept in contents), default=0.0), 0.999)

    def _with(self, kind: str, value: str) -> list[_Candidate]:
        return [each for name in self.index.names(kind, value) for each in self._load(name)]

    def _load(self, name: str) -> list[_Candidate]:
        identity = self.index.identity(name)
        if identity is None or self.file.path in identity.strangers:
            return []
        return [_Candidate(name, identity, identity.path_in(str(self.file.worktree.top)))]


class _Gone:
    """The paths of memories that have lost their file, looked up one by one."""

    def __init__(self, search: _Search) -> None:
        self._search = search

    def at(self, path: str) -> list[_Candidate]:
        found = (each for each in self._search._with(PATH, path) if each.path == path)
        return [each for each in found if self._search._is_gone(each)]

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and bool(self.at(path))
