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
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.files import blob_hash, read_source
from repoagent.git.process import GitError, git
from repoagent.git.worktree import WorkTree
from repoagent.memory.identity.hints import BLOB, EARLIER, KEY, PATH, IdentityIndex
from repoagent.memory.identity.record import REWRITTEN, Identity
from repoagent.memory.identity.similarity import (
    RENAME,
    is_sample,
    last_contents,
    likeness,
    shares_lines,
    similarity,
    worked_over,
)
from repoagent.storage.layout import Layout

_DEPTH = 500  # commits
_RENAMES = ("-M", "--diff-filter=R", "--raw", "--no-abbrev", "-z")
IsGone = Callable[
    [str, str], bool
]  # whether a path, and the blob that git had there, are those of a file that is gone
_Rename = tuple[str, str, str]  # the blob before, the old name, the new one


def renamed_from(
    worktree: WorkTree, path: str, is_gone: IsGone, commits: Collection[str | None]
) -> str | None:
    """Which path became `path` by renames, in the index or in a commit, and `is_gone`; None for none.

    `commits` are those that the gone files were last seen at, None for one that is not known; history is read, at most
    _DEPTH commits of it, only where `path` is younger than one of these.
    """
    found = _follow(path, is_gone, _in_index(worktree))
    if found is not None:
        return found
    known = {commit for commit in commits if commit}
    unknown = None in commits
    limit = _limit(worktree) if unknown else None
    asked = {*known, limit} if limit else known
    if (limit or not unknown) and not _lacking(worktree, path, asked):
        return None
    since = next(iter(known)) if len(known) == 1 and not unknown else None
    return _follow(path, is_gone, _in_history(worktree, since, _limit(worktree) if limit is None else limit))


def in_head(worktree: WorkTree, path: str) -> bytes | None:
    """What HEAD has at `path`; None for nothing."""
    return _content(worktree, f"HEAD:{path}")


def in_index(worktree: WorkTree, path: str) -> bytes | None:
    """What the index has at `path`; None for nothing."""
    return _content(worktree, f":0:{path}")


def as_in_work_tree(worktree: WorkTree, blob: str, path: str) -> bytes | None:
    """The content of `blob` as a checkout would write it to `path`; None for one that is gone."""
    try:
        return git(worktree.top, "cat-file", "--filters", f"--path={path}", blob)
    except GitError:
        return None


def _content(worktree: WorkTree, name: str) -> bytes | None:
    try:
        return git(worktree.top, "cat-file", "blob", name)
    except GitError:
        return None


def _follow(path: str, is_gone: IsGone, renames: Iterator[_Rename]) -> str | None:
    """From `path` back through the renames, newest first, to the first name that `is_gone`."""
    before: dict[str, tuple[str, str]] = {}
    for blob, old, new in renames:
        before.setdefault(new, (blob, old))
    blob, name = before.pop(path, ("", ""))
    while name and not is_gone(name, blob):  # renamed more than once
        blob, name = before.pop(name, ("", ""))
    return name or None


def _lacking(worktree: WorkTree, path: str, commits: Collection[str]) -> set[str]:
    """Those of `commits` that do not have `path` (or are gone): only since these can it be a rename's new
    name."""
    if not commits:
        return set()
    asked = sorted(commits)
    names = b"".join(os.fsencode(f"{commit}:{path}") + b"\n" for commit in asked)
    answers = git(worktree.top, "cat-file", "--batch-check", stdin=names).splitlines()
    if len(answers) != len(asked):  # a line break in the path
        return set(asked)
    return {commit for commit, answer in zip(asked, answers, strict=True) if answer.endswith(b" missing")}


def same_through_history(worktree: WorkTree, path: str, data: bytes, since: str) -> bool:
    """Whether `path` is one file in git's eyes from commit `since` to HEAD: there in both, never removed
    nor added on the way between them, its text not gone to another name, and `data` is what HEAD has."""
    try:
        names = b"".join(os.fsencode(f"{commit}:{path}") + b"\n" for commit in (since, "HEAD"))
        before, now = git(worktree.top, "cat-file", "--batch-check", stdin=names).splitlines()
        blob = git(worktree.top, "hash-object", "--stdin", "--path", path, stdin=data).strip()
        if b" blob " not in before or not now.startswith(blob + b" "):
            return False
        log = ("log", "-1", "--format=%H", "--no-renames", "--diff-filter=AD", f"{since}...HEAD", "--", path)
        if git(worktree.top, *log):
            return False
    except (GitError, ValueError):  # an unborn HEAD, a commit that is gone; a path with a line break
        return False
    return all(old != path for old, _ in renames_since(worktree, since))


def changed_files(worktree: WorkTree) -> Iterator[str]:
    """The files that are not as HEAD has them, or that it does not have (ignored ones left out)."""
    yield from _names(git(worktree.top, "ls-files", "-o", "--exclude-standard", "-z"))
    try:
        yield from _names(git(worktree.top, "diff-index", "--no-renames", "--name-only", "-z", "HEAD", "--"))
    except GitError:  # an unborn HEAD: all of the index is new
        yield from _names(git(worktree.top, "ls-files", "-z"))


def _names(out: bytes) -> Iterator[str]:
    return (os.fsdecode(name) for name in out.split(b"\0") if name)


def renames_since(worktree: WorkTree, commit: str) -> list[tuple[str, str]]:
    """(old, new) of what has another name in the work tree than in `commit`, also where another text has the old name
    by now: to git that is a change of the old name, marked as a rewriting, and a copy. Untracked files are not seen."""
    tree = ("diff-index", "-B", "-M", "--name-status", "-z", commit, "--")
    try:
        fields = iter([os.fsdecode(part) for part in git(worktree.top, *tree).split(b"\0") if part])
    except GitError:  # a commit that is gone
        return []
    changed = [(letter, next(fields), next(fields) if letter[0] in "RC" else "") for letter in fields]
    rewritten = {old for letter, old, _ in changed if letter.startswith("M") and letter != "M"}
    return [
        (old, new)
        for letter, old, new in changed
        if letter[0] == "R" or (letter[0] == "C" and old in rewritten)
    ]


def _in_index(worktree: WorkTree) -> Iterator[_Rename]:
    try:
        return _renames(git(worktree.top, "diff-index", "--cached", *_RENAMES, "HEAD", "--"))
    except GitError:  # an unborn HEAD has no renames
        return iter(())


def _limit(worktree: WorkTree) -> str:
    """The commit that reading history ends at; "" where there are not so many."""
    try:
        return git(worktree.top, "rev-list", "-1", f"--skip={_DEPTH}", "HEAD", "--").decode().strip()
    except GitError:  # an unborn HEAD
        return ""


def _in_history(worktree: WorkTree, since: str | None, limit: str) -> Iterator[_Rename]:
    """The renames of at most _DEPTH commits. Not by path: git can't pair names that it is not shown."""
    try:
        bounds = [f"^{commit}" for commit in (since, limit) if commit]
        return _renames(git(worktree.top, "log", *_RENAMES, "--format=", "HEAD", *bounds, "--"))
    except GitError:  # an unborn HEAD, or `since` is gone
        return iter(())


def _renames(out: bytes) -> Iterator[_Rename]:
    """Of each `:MODE MODE BLOB BLOB R<score> NUL old NUL new NUL`."""
    fields = [os.fsdecode(part) for part in out.split(b"\0") if part]
    for what, old, new in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        yield what.split()[2], old, new


CLEARLY = 0.05  # by so much more alike is one content believed before another
_CLAIMANTS = 50  # changed files that are compared with a memory


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


class Candidate(NamedTuple):
    """A memory: its folder, what it knows, and the path of its file in this work tree."""

    folder: str
    identity: Identity
    path: str


@dataclass(frozen=True)
class MemoryMatcher:
    """A file, and the memories to find its own among."""

    layout: Layout
    index: IdentityIndex
    file: WorkTreeFile

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

    def closeness(self, each: Candidate, file: WorkTreeFile) -> float:
        """1.0 for a version the memory has seen, else how alike `file` is to what it last saw."""
        if file.blob in each.identity.blobs:
            return 1.0
        contents = last_contents(self.layout.memory / each.folder, file.worktree)
        return min(max((likeness(kept, file.data) for kept in contents), default=0.0), 0.999)

    def file_at(self, path: str) -> WorkTreeFile | None:
        try:
            data = read_source(self.file.worktree, path).data
        except Refused:  # a folder, a link, a submodule by now
            return None
        return (
            None
            if data is None
            else WorkTreeFile(self.file.worktree, path, data, key_at(self.file.worktree, path))
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
        in_git = (in_head(file.worktree, file.path), in_index(file.worktree, file.path))
        blobs = {blob_hash(data, file.worktree.object_format) for data in in_git if data is not None}
        if not any(self.was_in_git(each, blob) for blob in blobs) or self.is_overwritten(each):
            return False
        if any(new == file.path for _, new in renames_since(file.worktree, "HEAD")):
            return False
        changed = [path for path in changed_files(file.worktree) if path != file.path][: _CLAIMANTS + 1]
        others = [
            self.file_at(path) for path in (*each.identity.earlier_paths, *changed) if path != file.path
        ]
        return len(changed) <= _CLAIMANTS and not any(
            there is not None and self.closeness(each, there) >= RENAME for there in others
        )

    def is_elsewhere(self, each: Candidate) -> bool:
        """Whether the inode of a gone file is at another changed name, or one it had, with its content: it is there."""
        keys = each.identity.keys.keys() - {self.file.key}
        for path in chain(each.identity.earlier_paths, changed_files(self.file.worktree)):
            if path not in (self.file.path, each.path) and key_at(self.file.worktree, path) in keys:
                there = self.file_at(path)
                if there is not None and self.closeness(each, there) >= RENAME:
                    return True
        return False

    def is_committed(self) -> bool:
        """Whether HEAD has this file at the path: then it may have existed at the same time as the missing one."""
        there = in_head(self.file.worktree, self.file.path)
        return there is not None and similarity(there, self.file.data) >= RENAME

    def is_in_index(self) -> bool:
        """Whether git's index has this file, and no other one, at the path: only of that it can tell where it was."""
        there = in_index(self.file.worktree, self.file.path)
        if there is None:
            return False
        return similarity(there, self.file.data) >= RENAME or worked_over(there, self.file.data)

    def was_in_git(self, each: Candidate, blob: str) -> bool:
        """Whether the `blob` that git had at the path of a memory is what the memory saw there."""
        if blob in each.identity.blobs:
            return True
        data = as_in_work_tree(self.file.worktree, blob, each.path)
        if data is None:
            return False
        then = WorkTreeFile(self.file.worktree, each.path, data, "")
        return self.closeness(each, then) >= RENAME or self.is_worked_over(each, then)

    def is_worked_over(self, each: Candidate, file: WorkTreeFile) -> bool:
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
        renames = renames_since(self.file.worktree, each.identity.commit or "HEAD")
        return any(new == each.path and old not in each.identity.earlier_paths for old, new in renames)

    def _renames(self, each: Candidate) -> list[tuple[str, str]]:
        paths = {each.path, *each.identity.earlier_paths}
        renames = renames_since(self.file.worktree, each.identity.commit or "HEAD")
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


_MANY = 1000  # of more memories it is not looked up which have lost their file
_COMPARED = 50  # files that are gone are compared with a new one, as git does with what is added


@dataclass(frozen=True)
class MemoryMatch:
    """The memory in the folder named `folder`. `moved`: the file of that memory is now at the path asked
    for. `reason` is empty where path and content simply agree."""

    folder: str
    reason: str = ""
    moved: bool = False


def find(layout: Layout, index: IdentityIndex, file: WorkTreeFile) -> MemoryMatch | None:
    """The memory of `file`, or None for a new one. Reads files, asks git when it must, writes nothing."""
    look = MemoryMatcher(layout, index, file)
    here = [each for each in look.having(PATH, look.file.path) if each.path == look.file.path]
    return (
        _same_blob(look, here)
        or _by_inode(look, here, exactly=True)
        or _alike(look, here)
        or _by_inode(look, here, exactly=False)
        or _worked_over(look, here)
        or _moved_back(look)
        or _by_git(look, here)
        or _rewritten(look, here)
    )


def _same_blob(look: MemoryMatcher, here: list[Candidate]) -> MemoryMatch | None:
    return next((MemoryMatch(each.folder) for each in here if look.closeness(each, look.file) == 1.0), None)


def _alike(look: MemoryMatcher, here: list[Candidate]) -> MemoryMatch | None:
    score, best = look.closest(here)
    if best is None:
        return None
    return _by_inode(look, here, exactly=False, least=score + CLEARLY) or MemoryMatch(best.folder)


def _worked_over(look: MemoryMatcher, here: list[Candidate]) -> MemoryMatch | None:
    return next((MemoryMatch(each.folder) for each in here if look.is_worked_over(each, look.file)), None)


def _by_inode(
    look: MemoryMatcher, here: list[Candidate], *, exactly: bool, least: float = RENAME
) -> MemoryMatch | None:
    file = look.file
    if not file.key or not file.says_something:
        return None
    folders = {each.folder for each in here}
    others = [each for each in look.having(KEY, file.key) if each.folder not in folders]
    _, each = look.closest(
        [one for one in others if file.key in one.identity.keys], 1.0 if exactly else least
    )
    if each is None:
        return None
    if look.is_held(each) and not look.is_case_only(each.path):
        return None
    return MemoryMatch(each.folder, f"moved from {each.path}", moved=True)


def _moved_back(look: MemoryMatcher) -> MemoryMatch | None:
    if not look.file.says_something:
        return None
    once = [each for each in look.having(EARLIER, look.file.path) if not look.is_held(each)]
    _, each = look.closest(once)
    if each is None or look.is_elsewhere(each):
        return None
    return _moved(each, f"moved back from {each.path}")


def _by_git(look: MemoryMatcher, here: list[Candidate]) -> MemoryMatch | None:
    file = look.file
    if not file.says_something:
        return None
    for each in here:
        commit = each.identity.commit
        if not commit or not same_through_history(file.worktree, file.path, file.data, commit):
            continue
        if not look.has_moved_away(each) and not look.is_elsewhere(each):
            return MemoryMatch(each.folder, "another version from git's history")
    return _exact_rename(look) or _recorded_rename(look)


def _exact_rename(look: MemoryMatcher) -> MemoryMatch | None:
    """An exact rename, as git calls it. If HEAD has the file, it may have existed together with the old one: then git
    must confirm the rename, as it must if the old path has another file now."""
    file = look.file
    same = [each for each in look.having(BLOB, file.blob) if look.is_lost(each)]
    if len(same) != 1:
        return None
    old = same[0].path
    if look.is_gone(same[0]):
        if look.is_committed() or look.is_elsewhere(same[0]):
            return None
        return MemoryMatch(same[0].folder, f"same content as {old}, which is gone", moved=True)
    if not look.is_renamed_from(same[0]):
        return None
    return MemoryMatch(same[0].folder, f"renamed from {old} in git", moved=True)


def _recorded_rename(look: MemoryMatcher) -> MemoryMatch | None:
    """A rename in git's index or history, or one that git will see when this file is added."""
    file = look.file
    many = look.index.count(_MANY) >= _MANY
    gone, displaced = ([], []) if many else _without_file(look)
    commits = [None] if many else [each.identity.commit for each in gone]
    asked = _Gone(look)
    if commits and renamed_from(file.worktree, file.path, asked, commits):
        each = asked.found[0]
        if file.key in each.identity.keys or look.is_in_index():  # rewritten there in place, or what git has
            return None if look.is_elsewhere(each) else _moved(each, f"renamed from {each.path} in git")
    return _like_a_lost_one(look, gone, displaced)


def _without_file(look: MemoryMatcher) -> tuple[list[Candidate], list[Candidate]]:
    """The memories whose path is gone, and those whose path the file of another one has by now."""
    gone, replaced = [], []
    for name, _ in look.index.paths():
        for each in look.load(name):
            key = key_at(look.file.worktree, each.path)
            if not key:
                gone.append(each)
            elif key not in each.identity.keys and each.path != look.file.path:
                replaced.append(each)
    if len(replaced) > _COMPARED:  # a clone, a restored backup: all of them have other inodes
        return gone, []
    lost = (each for each in replaced if not look.is_held(each))
    return gone, [
        each
        for each in lost
        if look.is_displaced(each) or look.is_overwritten(each) or look.is_renamed_from(each)
    ]


def _like_a_lost_one(
    look: MemoryMatcher, gone: list[Candidate], displaced: list[Candidate]
) -> MemoryMatch | None:
    lost = [*gone, *displaced]
    if not lost or len(lost) > _COMPARED:
        return None
    scored = sorted(((look.closeness(each, look.file), each) for each in lost), key=lambda one: -one[0])
    (score, best), (second, _) = (*scored, (0.0, None))[:2]
    if best is None or score < max(RENAME, second + CLEARLY) or look.is_elsewhere(best):
        return None
    if look.is_committed() and (best in gone or not look.is_renamed_from(best)):
        return None  # it may have existed together with the lost one
    return _moved(
        best, f"similar to {best.path}, which {'is gone' if best in gone else 'is now another file'}"
    )


def _moved(each: Candidate, reason: str) -> MemoryMatch:
    return MemoryMatch(each.folder, reason, moved=True)


def _rewritten(look: MemoryMatcher, here: list[Candidate]) -> MemoryMatch | None:
    there = (each for each in here if look.is_in_place(each) or look.is_replaced(each))
    agreed = (each for each in there if not look.has_moved_away(each))
    return next((MemoryMatch(each.folder, REWRITTEN) for each in agreed), None)


class _Gone:
    """Whether git's old name of this file is that of a memory that has lost its file; which one is kept in `found`."""

    def __init__(self, look: MemoryMatcher) -> None:
        self._look = look
        self.found: list[Candidate] = []

    def __call__(self, path: str, blob: str) -> bool:
        look = self._look
        named = (each for each in look.having(PATH, path) if each.path == path and look.is_gone(each))
        self.found = [each for each in named if look.was_in_git(each, blob)]
        return bool(self.found)
