"""Read the index at one revision: the `HistoryView` for the co-change score.

The commits that a revision reaches are stored as sorted bounds of commit numbers: start, end, start, end, ...; each end
is exclusive. A range that starts at LOWEST also covers older commits that are not indexed yet, if the revision reaches
all of them.
"""

from __future__ import annotations

import sqlite3
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from zlib import crc32

from repoagent.errors import UsageError
from repoagent.git.process import GitError, git, git_output
from repoagent.history import cochange
from repoagent.history.cochange import HistoryCommit
from repoagent.history.index.schema import AGES, LOWEST, NUMBERS, WHOLE, get_integer, unpack_numbers

_NAMESAKES = 50
_COMMIT = f"SELECT {AGES} - age, time, author, size, files FROM"
# The numbers are passed as one JSON value: SQLite would take longer to parse a statement with all of them than to run
# it.
_OF = "json_each(?) CROSS JOIN"
_NONE: array[int] = array("I")


class IndexView:
    """The history that one revision reaches. A file keeps its id through all renames.

    `reach` has the bounds of the numbers of the reachable commits. `exists` returns the files of the revision's tree at
    or below the paths passed to it; pass None if the index has recorded that tree. `broken` is called if the index is
    damaged, and must raise. The view is `whole` if the revision reaches all commits of the index.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        reach: Sequence[int],
        exists: Callable[[Sequence[bytes]], Iterable[bytes]] | None,
        broken: Callable[[Exception], NoReturn] | None = None,
    ) -> None:
        self._connection, self._reach, self._exists, self._broken = connection, reach, exists, broken
        # two queries: for both ends at once SQLite would scan all commits
        ((oldest,),), ((newest,),) = (self._ask(f"SELECT {end}(age) FROM commit_") for end in ("max", "min"))
        self.whole = oldest is None or (
            len(reach) == 2 and reach[0] <= AGES - oldest and AGES - newest < reach[1]
        )
        self._cache: dict[int, HistoryCommit] = {}
        self._directories: dict[int, bytes] = {}

    def file(self, path: bytes) -> int | None:
        directory, _, base = path.rpartition(b"/")
        rows = self._ask(
            "SELECT file, high, low FROM name WHERE directory = (SELECT id FROM directory WHERE path = ?) AND base = ? "
            "ORDER BY high DESC",
            (directory, base),
        )
        if self.whole:
            return int(rows[0][0]) if rows else None
        return next((int(file) for file, high, low in rows if self._meets(low, high)), None)

    def commits(self, file: int, limit: int) -> list[HistoryCommit]:
        return self.many((file,), limit)[file]

    def many(self, files: Sequence[int], limit: int) -> dict[int, list[HistoryCommit]]:
        numbers: dict[int, list[int]] = {file: [] for file in files}
        for file, data in self._ask(
            f"SELECT file, numbers FROM {_OF} touch WHERE file = value ORDER BY file, low DESC",
            (str(list(numbers)),),
        ):
            if len(numbers[file]) < limit:
                numbers[file] += self._reached(data)
                del numbers[file][limit:]
        cache = self._cache
        missing = {number for each in numbers.values() for number in each if number not in cache}
        if missing:
            newest = str(sorted(missing, reverse=True))  # in the order of the table
            for commit in self._commits(f"{_COMMIT} {_OF} commit_ WHERE age = {AGES} - value", (newest,)):
                cache[commit[0]] = commit
        return {file: [cache[number] for number in each if number in cache] for file, each in numbers.items()}

    def latest(self, limit: int) -> list[HistoryCommit]:
        commits: list[HistoryCommit] = []
        for begin, end in zip(reversed(self._reach[::2]), reversed(self._reach[1::2]), strict=True):
            between = (AGES - end, AGES - begin, limit - len(commits))
            commits += self._commits(
                f"{_COMMIT} commit_ WHERE age > ? AND age <= ? ORDER BY age LIMIT ?", between
            )
            if len(commits) >= limit:
                break
        return commits

    def namesakes(self, stem: bytes) -> list[int]:
        rows = self._ask(
            "SELECT file, high, low, path, base FROM name JOIN directory ON directory.id = directory "
            "WHERE stem = ? ORDER BY high DESC",
            (crc32(stem) >> 1,),
        )
        namesakes = [
            row[:3]
            for row in rows
            if cochange.name_stem(row[3] + b"/" + row[4] if row[3] else row[4]) == stem
        ]
        return self._newest(namesakes, _NAMESAKES)

    def folder(self, directory: bytes, limit: int) -> list[int]:
        inside = "directory = (SELECT id FROM directory WHERE path = ?)"
        select = f"SELECT file, high, low FROM name WHERE {inside}"
        if self._exists is None:
            some = f" LIMIT {limit:d}" if self.whole else ""
            rows = self._ask(f"{select} AND alive ORDER BY high DESC{some}", (directory,))
            return self._newest(rows, limit)
        files = self._newest(self._ask(f"{select} ORDER BY high DESC", (directory,)), None)
        members = {file for file, path in self.paths(files).items() if path.rpartition(b"/")[0] == directory}
        return [file for file in files if file in members][:limit]

    def paths(self, files: Sequence[int]) -> dict[int, bytes]:
        alive = "AND alive = 1 " if self._exists is None else ""
        rows = self._ask(
            f"SELECT file, directory, base FROM {_OF} name WHERE file = value {alive}ORDER BY file, alive, high",
            (str(list(files)),),
        )
        folders = self._directories
        if missing := list({row[1] for row in rows} - folders.keys()):
            for directory, path in self._ask(
                f"SELECT directory.id, directory.path FROM {_OF} directory WHERE directory.id = value",
                (str(missing),),
            ):
                folders[directory] = path + b"/" if path else b""
        file_paths = [(file, folders[directory] + base) for file, directory, base in rows]
        if self._exists is None:
            return dict(file_paths)
        present = set(self._exists([path for _, path in file_paths]))
        return {file: path for file, path in file_paths if path in present and self.file(path) == file}

    def author(self, text: bytes) -> int | None:
        """The id of the author `text`, written as in a commit (`Ann <ann@example.org>`); None if unknown."""
        rows = self._ask("SELECT id FROM author WHERE text = ?", (text,))
        return int(rows[0][0]) if rows else None

    def ids(self, numbers: Iterable[int]) -> dict[int, str]:
        rows = self._ask(
            f"SELECT age, commit_.id FROM {_OF} commit_ WHERE age = {AGES} - value", (str(list(numbers)),)
        )
        return {AGES - age: identity.hex() for age, identity in rows}

    def _ask(self, statement: str, values: Sequence[int | bytes | str] = ()) -> list[Any]:
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            if self._broken is None:
                raise
            self._broken(error)

    def _reached(self, data: bytes) -> Iterable[int]:
        with self._errors():
            numbers = unpack_numbers(NUMBERS, data)
        numbers.reverse()
        return numbers if self.whole else filter(self._reaches, numbers)

    def _commits(self, statement: str, values: Sequence[int | str] = ()) -> list[HistoryCommit]:
        new, rows = tuple.__new__, self._ask(statement, values)
        with self._errors():
            return [
                new(HistoryCommit, (number, time, author, size, array("I", files) if files else _NONE))
                for number, time, author, size, files in rows
            ]

    def _newest(self, rows: Iterable[tuple[int, int, int]], limit: int | None) -> list[int]:
        """The files of rows (file, newest number, oldest number), the most recently changed at the revision first."""
        if self.whole:
            return list(dict.fromkeys([row[0] for row in rows]))[:limit]
        last: dict[int, int] = {}
        for file, high, low in rows:
            if file not in last and self._meets(low, high):
                last[file] = high
                if not self._reaches(high):
                    newest = self.commits(file, 1)
                    last[file] = newest[0].number if newest else LOWEST
        return sorted(last, key=lambda file: -last[file])[:limit]

    def _reaches(self, number: int) -> bool:
        return self.whole or bool(bisect_right(self._reach, number) & 1)

    def _meets(self, low: int, high: int) -> bool:
        """Whether the revision reaches a number from `low` to `high`."""
        first = bisect_right(self._reach, low)
        return bool(first & 1) or (first < len(self._reach) and self._reach[first] <= high)


_TRIES = 3  # known tips to compare a new one with; git may have pruned the newest


class ReachableCommits(NamedTuple):
    """The commits that a tip reaches: `bounds` covers the indexed ones; `new` has the hexadecimal ids of the others,
    oldest first. A tip with a `floor` is valid only while the index has no number below it."""

    bounds: tuple[int, ...]
    new: tuple[bytes, ...] = ()
    floor: int | None = None


def compute_reach(connection: sqlite3.Connection, top: Path, tip: bytes) -> ReachableCommits:
    """The commits that can be reached from `tip`, a hexadecimal commit id. An unknown tip takes one git process.

    Raises UsageError if git cannot walk the history from it.
    """
    if (stored := stored_reach(connection, tip)) is not None:
        return stored
    low, ended = get_integer(connection, "low"), get_integer(connection, "ended") == WHOLE
    walk = ("rev-list", "--no-merges", "--reverse")
    rows = connection.execute(
        "SELECT id, ranges FROM tip WHERE floor IS NULL OR floor = ? ORDER BY used DESC LIMIT ?",
        (low, _TRIES),
    ).fetchall()
    for other, ranges in rows:
        try:
            between = f"{other.hex()}...{tip.decode()}^{{commit}}"
            ids = git(top, *walk, "--left-right", between, "--").split()
        except GitError:  # its objects were pruned
            continue
        left = [each[1:] for each in ids if each.startswith(b"<")]  # only the known tip reaches these
        right = [each[1:] for each in ids if each.startswith(b">")]
        bounds = tuple(unpack_numbers(NUMBERS, ranges))
        everything = bounds == (LOWEST, get_integer(connection, "high"))
        if everything and not left:
            return ReachableCommits(bounds, tuple(right))
        numbers = _numbers(connection, {*left} if everything else {*left, *right})
        floor = low if left and not ended else None
        break
    else:
        every = git_output(top, *walk, f"{tip.decode()}^{{commit}}", "--", ok=(0, 128))
        if every.returncode:
            raise UsageError(f"commit {tip.decode()} or part of its history is missing")
        right = every.stdout.split()
        bounds, numbers, floor = (), _numbers(connection, set(right)), None if ended else low
    new = tuple(each for each in right if each not in numbers)
    return ReachableCommits(toggled(bounds, numbers.values()), new, floor)


def stored_reach(connection: sqlite3.Connection, tip: bytes) -> ReachableCommits | None:
    """The stored reach of a tip; None if there is none or it is no longer valid."""
    query = "SELECT ranges, floor FROM tip WHERE id = ?"
    row = connection.execute(query, (bytes.fromhex(tip.decode()),)).fetchone()
    if row is None or row[1] not in (None, get_integer(connection, "low")):
        return None
    return ReachableCommits(tuple(unpack_numbers(NUMBERS, row[0])), (), row[1])


def store_reach(connection: sqlite3.Connection, tip: bytes, reached: ReachableCommits) -> None:
    """Store what a tip reaches, in the caller's transaction."""
    row = (bytes.fromhex(tip.decode()), array(NUMBERS, reached.bounds), reached.floor)
    connection.execute(
        "INSERT OR REPLACE INTO tip SELECT ?, ?, ?, 0, coalesce(max(used), 0) + 1 FROM tip", row
    )
    connection.execute("DELETE FROM tip WHERE used <= (SELECT max(used) FROM tip) - 200")


def toggled(bounds: Sequence[int], numbers: Iterable[int]) -> tuple[int, ...]:
    """`bounds` with each of `numbers` removed if it is inside, added if not."""
    edges = set(bounds)
    for number in numbers:
        edges ^= {number, number + 1}
    return tuple(sorted(edges))


def _numbers(connection: sqlite3.Connection, ids: set[bytes]) -> dict[bytes, int]:
    """The numbers of the commits that are indexed. A scan, newest first: an index of ids would be a third of the file,
    and only other branches need it."""
    wanted = {bytes.fromhex(each.decode()): each for each in ids}
    numbers: dict[bytes, int] = {}
    for age, identity in connection.execute("SELECT age, id FROM commit_ ORDER BY age"):
        if identity in wanted:
            numbers[wanted[identity]] = AGES - age
            if len(numbers) == len(wanted):
                break
    return numbers
