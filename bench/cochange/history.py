"""The commits of a repository, and histories that are built one commit at a time and know no later ones.

`MemoryView` implements the product's `HistoryView`: a file keeps its identity through renames. `Histories` also has the
same history by path (`by_path`), where a renamed file is a new one.
"""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.origins import git
from repoagent.history.cochange import HistoryCommit, name_stem

CACHE = Path.home() / ".cache" / "repoagent-bench" / "cochange"
_HEADER = b"\x01"


class Change(NamedTuple):
    """One commit: committer date (Unix seconds), author, and (status letter, old path, new path) of each file."""

    time: int
    author: bytes
    entries: tuple[tuple[bytes, bytes, bytes], ...]


def load(repository: Path) -> list[Change]:
    """The non-merge commits that HEAD reaches, oldest first. Raises CalledProcessError if git fails."""
    head = git(repository, "rev-parse", "--verify", "HEAD").strip()
    cached = CACHE / f"{sha256(bytes(repository.resolve()) + head).hexdigest()[:24]}.pickle"
    if cached.is_file():
        return [Change(*fields) for fields in pickle.loads(cached.read_bytes())]
    log = [
        "log",
        "--no-merges",
        "--date-order",
        "--raw",
        "-z",
        "--no-abbrev",
        "--no-ext-diff",
        "--no-show-signature",
    ]
    form = ("--format=%x01%ct %ae", "HEAD")
    try:
        out = git(repository, *log, "-M", *form)
    except subprocess.CalledProcessError:  # a partial clone lacks a blob: detect exact renames only
        out = git(repository, *log, "-M100%", *form)
    changes = parse(out)
    CACHE.mkdir(parents=True, exist_ok=True)
    cached.write_bytes(pickle.dumps([tuple(change) for change in changes], protocol=5))
    return changes


def parse(out: bytes) -> list[Change]:
    """The changes in the output of `git log --raw -z`, oldest first."""
    commits: list[tuple[int, bytes, list[tuple[bytes, bytes, bytes]]]] = []
    tokens = iter(out.split(b"\0"))
    for token in tokens:
        token = token.lstrip(b"\n")
        if token.startswith(_HEADER):
            time, _, author = token[1:].partition(b" ")
            commits.append((int(time), author, []))
        elif token.startswith(b":"):
            letter = token.rpartition(b" ")[2][:1]
            before = next(tokens)
            after = next(tokens) if letter in b"RC" else before
            commits[-1][2].append((letter, before, after))
    return [Change(time, author, tuple(entries)) for time, author, entries in reversed(commits)]


LARGEST = 100
CODE_MAAT_LARGEST = 30  # its --max-changeset-size


class MemoryView:
    """A `HistoryView` in memory. `add` expects the commits oldest first."""

    def __init__(self) -> None:
        self.all: list[HistoryCommit] = []  # large ones have no files, as in the product
        self.full: list[tuple[int, ...]] = []  # the files of each commit, even of large ones
        self.of: list[list[int]] = []  # numbers of the commits of each file, oldest first
        self.revisions: list[int] = []  # of each file, those that code-maat counts
        self.alive: dict[int, bytes] = {}
        self._holder: dict[bytes, int] = {}  # path -> the file that has it or had it last
        self._authors: dict[bytes, int] = {}
        self._stems: dict[bytes, dict[int, None]] = {}  # oldest change first
        self._folders: dict[bytes, dict[int, None]] = {}

    def add(self, change: Change) -> None:
        number = len(self.all)
        files = dict.fromkeys(self._identify(*entry) for entry in change.entries)
        for file in files:
            self.of[file].append(number)
            self.revisions[file] += len(files) <= CODE_MAAT_LARGEST
        members = tuple(files)
        author = self._authors.setdefault(change.author, len(self._authors))
        self.full.append(members)
        small = members if len(members) <= LARGEST else ()
        self.all.append(HistoryCommit(number, change.time, author, len(members), small))

    def _identify(self, letter: bytes, before: bytes, after: bytes) -> int:
        """The file of an entry; updates paths, folders and the living files."""
        file = self._holder.get(before)
        if file is None or (letter == b"A" and self.alive.get(file, before) != before):
            file = len(self.of)  # new, or the path's old holder now has another path
            self.of.append([])
            self.revisions.append(0)
        self._holder[before] = file
        if letter == b"D":
            self._leave(file)
            return file
        if letter == b"M" and file in self.alive:
            after = self.alive[file]  # another branch still has the old path
        if self.alive.get(file) != after:
            self._leave(file)
        self._holder[after] = file
        self.alive[file] = after
        _touch(self._stems, name_stem(after), file)
        _touch(self._folders, after.rpartition(b"/")[0], file)
        return file

    def _leave(self, file: int) -> None:
        path = self.alive.pop(file, None)
        if path is not None:
            self._folders[path.rpartition(b"/")[0]].pop(file, None)

    # View

    def file(self, path: bytes) -> int | None:
        return self._holder.get(path)

    def commits(self, file: int, limit: int) -> list[HistoryCommit]:
        return [self.all[number] for number in reversed(self.of[file][-limit:])]

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[HistoryCommit]]:
        return {file: self.commits(file, limit) for file in files}

    def latest(self, limit: int) -> list[HistoryCommit]:
        return self.all[: -limit - 1 : -1]

    def namesakes(self, stem: bytes) -> list[int]:
        return list(islice(reversed(self._stems.get(stem, {})), 50))

    def folder(self, directory: bytes, limit: int) -> list[int]:
        return list(islice(reversed(self._folders.get(directory, {})), limit))

    def paths(self, files: Iterable[int]) -> dict[int, bytes]:
        return {file: self.alive[file] for file in files if file in self.alive}


def _touch(groups: dict[bytes, dict[int, None]], key: bytes, file: int) -> None:
    group = groups.setdefault(key, {})
    group.pop(file, None)
    group[file] = None


DEAD = -1  # in an answer: no living file, so never right


class Histories(MemoryView):
    """A history with rename tracking, and the same history by path."""

    def __init__(self) -> None:
        super().__init__()
        self.by_path = MemoryView()

    def add(self, change: Change) -> None:
        super().add(change)
        self.by_path.add(without_renames(change))

    def same_by_path(self, files: Sequence[int]) -> list[int]:
        """The files of `by_path` with the current paths of `files`; omits dead files and paths unknown there."""
        matches = (self.by_path.file(self.alive[file]) for file in files if file in self.alive)
        return [file for file in matches if file is not None]

    def from_path(self, file: int) -> int:
        """The file with the current path of a file of `by_path`; DEAD if there is none."""
        path = self.by_path.alive.get(file)
        own = None if path is None else self.file(path)
        return DEAD if own is None else own


def without_renames(change: Change) -> Change:
    """The same commit with each rename as a deletion and an addition, and each copy as an addition."""
    entries: list[tuple[bytes, bytes, bytes]] = []
    for letter, before, after in change.entries:
        if letter == b"R":
            entries += [(b"D", before, before), (b"A", after, after)]
        else:
            entries.append((b"A" if letter == b"C" else letter, after, after))
    return Change(change.time, change.author, tuple(entries))
