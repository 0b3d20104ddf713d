"""Garbage collection: archive memories whose file is gone from all work trees, branches and stashes."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Busy
from repoagent.git.files import blob_hash
from repoagent.git.process import OFFLINE, GitError, git, git_stream
from repoagent.git.worktree import WorkTree
from repoagent.memory.archive.format import (
    Archive,
    ArchivedMemory,
    contents,
    dumps,
    fits,
    listing,
    lock_memory,
    move,
    read_archive,
    scratch,
)
from repoagent.memory.identity.git_renames import changed_files
from repoagent.memory.identity.hints import open_index
from repoagent.memory.identity.record import FILE, Memory, load
from repoagent.memory.identity.resolve import file_at
from repoagent.memory.identity.similarity import is_alike, last_contents
from repoagent.memory.identity.store import memory_lock
from repoagent.memory.listing import FileLocator, tops
from repoagent.storage import json_files
from repoagent.storage.atomic import write_whole
from repoagent.storage.layout import Layout, Warn, to_stderr

DAYS = 14  # the time for which git keeps unreachable objects
_TREES = 300  # most pairs of commits that git compares for renames
_PAIRS = 20_000  # most pairs of a new file and a memory that are compared by content
Verdict = Literal["orphan", "kept", "put away"]


@dataclass(frozen=True)
class GcCandidate:
    """A memory whose file is not in this work tree. `size` is in bytes, `used` the time of its last change in seconds
    since 1970, `why` the reason not to archive it, and `archive` the file that it was archived to."""

    memory: Memory
    size: int
    used: float
    verdict: Verdict
    why: str = ""
    archive: Path | None = None


@dataclass(frozen=True)
class GcResult:
    """The memories without a file in this work tree, by path, and the total number of memories."""

    judged: tuple[GcCandidate, ...]
    memories: int


def archive_folder(layout: Layout) -> Path:
    return layout.root / "archive"


def collect(
    layout: Layout,
    worktree: WorkTree,
    *,
    days: int = DAYS,
    apply: bool = False,
    now: float | None = None,
    warn: Warn = to_stderr,
) -> GcResult:
    """Find the memories without a file that were not changed for `days` days; with `apply` archive them.

    A memory stays if its file is in any work tree, on any branch or in a stash, also under another name; if it is
    locked, an edit of its file is being recorded, or it contains unknown files. If the process is killed, each memory
    is in place, in the archive, or both. Raises Busy while another process collects, Refused if the archive cannot be
    written.
    """
    cutoff = (time.time() if now is None else now) - days * 86_400
    with open_index(layout, warn) as index:
        index.look_again()
        locator = FileLocator(layout, worktree, index)
        paths = index.paths()
        names = [name for name, path in paths if locator.locate(name, path).state == "orphaned"]
        orphans = [
            Memory(layout.memory / name, identity) for name in names if (identity := index.identity(name))
        ]
    remains = _remains(worktree, orphans)
    recorded = _being_recorded(layout)
    judged = []
    for memory in sorted(orphans, key=lambda memory: (memory.identity.path, memory.folder.name)):
        size, used = _measured(memory.folder)
        files, others = listing(memory.folder)
        unknown = [path for path in files if path != FILE and not fits(path, whole=True)] + others
        why = remains.get(memory.folder.name, "")
        if not why and unknown:
            why = f"contains {unknown[0]}, which repoagent did not create"
        if not why and memory.folder.name in recorded:
            why = "an edit of its file has not been recorded yet"
        if not why and used > cutoff:
            why = f"changed less than {days} days ago"
        judged.append(GcCandidate(memory, size, used, "kept" if why else "orphan", why))
    if apply and any(candidate.verdict == "orphan" for candidate in judged):
        with scratch(layout) as folder:
            judged = [
                _put_away(layout, worktree, candidate, folder / str(number))
                if candidate.verdict == "orphan"
                else candidate
                for number, candidate in enumerate(judged)
            ]
    return GcResult(tuple(judged), len(paths))


def _measured(folder: Path) -> tuple[int, float]:
    """The size of a memory in bytes and the time of its last change."""
    statuses = [(folder / path).lstat() for path in listing(folder)[0]]
    return sum(status.st_size for status in statuses), max(
        (status.st_mtime for status in statuses), default=0.0
    )


def _being_recorded(layout: Layout) -> set[str]:
    """The memories of files with an edit that is running, or was killed before it was recorded."""
    names: set[str] = set()
    for path in layout.pending.glob("*.json") if layout.pending.is_dir() else ():
        memories = (json_files.parse(path.read_bytes()) or {}).get("memories")
        names |= set(map(str, memories.values())) if isinstance(memories, dict) else set()
    return names


def _put_away(layout: Layout, worktree: WorkTree, candidate: GcCandidate, to: Path) -> GcCandidate:
    memory, size, used = candidate.memory, candidate.size, candidate.used
    folder = memory.folder
    why, path = "", None
    try:
        with memory_lock(layout), lock_memory(folder, timeout=0.0):
            identity = load(folder, warn=lambda message: None)
            if identity != memory.identity or _measured(folder) != (size, used):
                why = "changed just now"
            else:
                parcel = _parcel(memory)
                data = dumps(Archive((parcel,), worktree.object_format, whole=True))
                path = archive_folder(layout) / f"{folder.name}-{sha256(data).hexdigest()[:8]}.tar.gz"
                write_whole(path, data)
                with io.BytesIO(path.read_bytes()) as stream:
                    is_whole = read_archive(stream, path.name, own=True).parcels == (parcel,)
                if is_whole and parcel == _parcel(memory):
                    move(folder, to)
                    return GcCandidate(memory, size, used, "put away", archive=path)
                why = f"could not verify {path}"
    except Busy as error:
        why = str(error)
    return GcCandidate(memory, size, used, "kept", why)


def _parcel(memory: Memory) -> ArchivedMemory:
    files = [path for path in listing(memory.folder)[0] if path != FILE and fits(path, whole=True)]
    return ArchivedMemory(memory.folder.name, memory.identity, contents(memory.folder, files))


class _Repository(NamedTuple):
    """The places to search for files: all work trees, and the commits of branches, work trees and stashes."""

    worktree: WorkTree
    tops: list[str]
    tips: list[str]


_Found = Iterator[tuple[Memory, str]]


def _remains(worktree: WorkTree, memories: Sequence[Memory]) -> dict[str, str]:
    """Why `memories` are no orphans, as a sentence by the name of the folder."""
    remains: dict[str, str] = {}
    if memories:
        repository = _Repository(worktree, tops(worktree), _tips(worktree))
        for look in (_in_work_trees, _by_content, _by_blob, _by_path, _by_rename):
            rest = [memory for memory in memories if memory.folder.name not in remains]
            if rest:
                remains |= {memory.folder.name: sentence for memory, sentence in look(repository, rest)}
    return remains


def _paths(memory: Memory) -> set[str]:
    return {memory.identity.path, *(seen.path for seen in memory.identity.places.values())}


def _tips(worktree: WorkTree) -> list[str]:
    """The commits of all local and remote-tracking branches, work trees, and stashes."""
    refs = ("for-each-ref", "--format=%(objectname) %(objecttype)", "refs/heads", "refs/remotes")
    listed = git(worktree.top, *refs).decode().splitlines()
    tips = [line.split(" ")[0] for line in listed if line.endswith(" commit")]
    trees = git(worktree.top, "worktree", "list", "--porcelain").split(b"\n")
    heads = [line.removeprefix(b"HEAD ").decode() for line in trees if line.startswith(b"HEAD ")]
    tips += [head for head in heads if head.strip("0")]
    try:
        stashes = git(worktree.top, "log", "-g", "--format=%H %P", "refs/stash", "--").decode()
    except GitError:  # no stash
        stashes = ""
    for line in stashes.splitlines():  # a third parent contains the untracked files
        commit, _, *parents = line.split()
        tips += [commit, *parents]
    return list(dict.fromkeys(tips))


def _in_work_trees(repository: _Repository, memories: Sequence[Memory]) -> _Found:
    for memory in memories:
        for top in repository.tops:
            if not Path(top).is_dir() and top in memory.identity.places:
                yield memory, f"the work tree {top} does not exist"
            for path in _paths(memory):
                if os.path.lexists(f"{top}/{path}"):
                    yield memory, f"{top} has a file {path}"


def _by_content(repository: _Repository, memories: Sequence[Memory]) -> _Found:
    """Search the new and changed files of all work trees, which no commit contains yet."""
    trees = [repository.worktree]
    for top in repository.tops[1:] if "GIT_DIR" not in os.environ else ():
        if Path(top).is_dir():
            git_dir = os.fsdecode(git(top, "rev-parse", "--absolute-git-dir").rstrip(b"\n"))
            trees.append(repository.worktree._replace(top=Path(top), git_dir=Path(git_dir)))
    changed = [(tree, path) for tree in trees for path in changed_files(tree)]
    if len(changed) * len(memories) > _PAIRS:
        yield from ((memory, f"too many new files to compare ({len(changed):,})") for memory in memories)
        return
    known = [(memory, last_contents(memory.folder, repository.worktree)) for memory in memories]
    for tree, path in changed:
        file = file_at(tree, path)
        if file is None or not file.says_something:
            continue
        for memory, last in known:
            if file.blob in memory.identity.blobs or any(is_alike(content, file.data) for content in last):
                yield memory, f"{path} in {tree.top} has similar content"


def _by_blob(repository: _Repository, memories: Sequence[Memory]) -> _Found:
    top, empty = repository.worktree.top, blob_hash(b"", repository.worktree.object_format)
    owners = {blob: memory for memory in memories for blob in memory.identity.blobs if blob != empty}
    if repository.tips and owners:
        objects = ("rev-list", "--objects", "--no-walk", *repository.tips, "--")
        with git_stream(top, *objects, env=OFFLINE) as listed:
            for line in listed:
                blob, _, path = line.rstrip(b"\n").partition(b" ")
                if memory := owners.get(blob.decode("ascii", "replace")):
                    yield memory, f"a branch has its content in {os.fsdecode(path)}"


def _by_path(repository: _Repository, memories: Sequence[Memory]) -> _Found:
    names = []
    for memory in memories:
        for path in _paths(memory):
            if "\n" in path:
                yield memory, "git cannot look up a path that contains a line break"
            else:
                names += [(memory, path, f"{tip}:{path}") for tip in repository.tips]
    stdin = b"".join(os.fsencode(name) + b"\n" for _, _, name in names)
    answers = git(repository.worktree.top, "cat-file", "--batch-check", stdin=stdin, env=OFFLINE).splitlines()
    for (memory, path, _), answer in zip(names, answers, strict=True):
        if not answer.endswith(b" missing"):
            yield memory, f"a branch has a file {path}"


def _by_rename(repository: _Repository, memories: Sequence[Memory]) -> _Found:
    """Search for files that were renamed and changed on a branch since their last edit."""
    commits = {memory.identity.commit for memory in memories} - {None}
    renames: dict[str | None, dict[str, str] | str] = {}
    for commit in commits:
        renames[commit] = _renames(repository, commit or "", len(commits))
    for memory in memories:
        names = renames.get(memory.identity.commit, {})
        if isinstance(names, str):
            yield memory, names
        elif new := next((names[path] for path in _paths(memory) if path in names), None):
            yield memory, f"a branch renamed it to {new}"


def _renames(repository: _Repository, commit: str, commits: int) -> dict[str, str] | str:
    """New paths on any branch by old path; if git cannot compare, the reason as a sentence."""
    top = repository.worktree.top
    if commits * len(repository.tips) > _TREES:
        return f"too many branches to search for renames ({len(repository.tips)})"
    try:
        git(top, "cat-file", "-e", f"{commit}^{{commit}}", env=OFFLINE)
    except GitError:  # the commit does not exist any more
        return {}
    renames: dict[str, str] = {}
    for tip in repository.tips:
        tree = ("diff-tree", "-r", "-M", "--diff-filter=R", "--name-status", "-z", commit, tip, "--")
        try:
            fields = [os.fsdecode(part) for part in git(top, *tree, env=OFFLINE).split(b"\0") if part]
        except GitError:  # a partial clone without these files
            return f"git cannot compare {commit[:12]} with {tip[:12]}"
        renames |= dict(zip(fields[1::3], fields[2::3], strict=False))
    return renames
