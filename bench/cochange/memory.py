"""A history that grows commit by commit, as the product's `View`: it knows only what was added to it so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from bench.cochange.load import Change
from repoagent.history.cochange.score import Commit, stem

LARGEST = 100
CODE_MAAT_LARGEST = 30  # its --max-changeset-size


class MemoryView:
    """`add` takes the commits oldest first; everything else is the `View` protocol."""

    def __init__(self) -> None:
        self.all: list[Commit] = []  # as the product sees them: large ones without files
        self.full: list[tuple[int, ...]] = []  # the files of each, large ones too
        self.of: list[list[int]] = []  # numbers of the commits of each file, oldest first
        self.revisions: list[int] = []  # how many of them code-maat would count
        self.alive: dict[int, bytes] = {}
        self._holder: dict[bytes, int] = {}  # path -> the file that has it or had it last
        self._authors: dict[bytes, int] = {}
        self._stems: dict[bytes, dict[int, None]] = {}  # oldest change first
        self._folders: dict[bytes, dict[int, None]] = {}

    def add(self, change: Change) -> None:
        """The next commit."""
        number = len(self.all)
        files: dict[int, None] = {}
        for letter, before, after in change.entries:
            file = self._identify(letter, before, after)
            files[file] = None
        for file in files:
            self.of[file].append(number)
            self.revisions[file] += len(files) <= CODE_MAAT_LARGEST
        members = tuple(files)
        author = self._authors.setdefault(change.author, len(self._authors))
        self.full.append(members)
        small = members if len(members) <= LARGEST else ()
        self.all.append(Commit(number, change.time, author, len(members), small))

    def _identify(self, letter: bytes, before: bytes, after: bytes) -> int:
        """The file of an entry, with names, folders and life brought up to date."""
        file = self._holder.get(before)
        if file is None or (letter == b"A" and self.alive.get(file, before) != before):
            file = len(self.of)  # new; or the path's old holder lives on under another name
            self.of.append([])
            self.revisions.append(0)
        self._holder[before] = file
        if letter == b"D":
            self._leave(file)
            return file
        if letter == b"M" and file in self.alive:
            after = self.alive[file]  # another branch still has the old name
        if self.alive.get(file) != after:
            self._leave(file)
        self._holder[after] = file
        self.alive[file] = after
        _touch(self._stems, stem(after), file)
        _touch(self._folders, after.rpartition(b"/")[0], file)
        return file

    def _leave(self, file: int) -> None:
        path = self.alive.pop(file, None)
        if path is not None:
            self._folders[path.rpartition(b"/")[0]].pop(file, None)

    # View

    def file(self, path: bytes) -> int | None:
        return self._holder.get(path)

    def commits(self, file: int, limit: int) -> list[Commit]:
        return [self.all[number] for number in reversed(self.of[file][-limit:])]

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[Commit]]:
        return {file: self.commits(file, limit) for file in files}

    def latest(self, limit: int) -> list[Commit]:
        return self.all[: -limit - 1 : -1]

    def namesakes(self, stem: bytes) -> list[int]:
        return list(islice(reversed(self._stems.get(stem, {})), 50))

    def folder(self, directory: bytes, limit: int) -> list[int]:
        return list(islice(reversed(self._folders.get(directory, {})), limit))

    def paths(self, files: Iterable[int]) -> dict[int, bytes]:
        return {file: self.alive[file] for file in files if file in self.alive}


def _touch(groups: dict[bytes, dict[int, None]], key: bytes, file: int) -> None:
    """Make it the newest of its group."""
    group = groups.setdefault(key, {})
    group.pop(file, None)
    group[file] = None
