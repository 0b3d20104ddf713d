"""Fill the index in batches, one transaction each: older commits backwards from its first one, new commits forwards."""

from __future__ import annotations

import sqlite3
import time
from array import array
from binascii import a2b_hex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from repoagent.git.process import GitError
from repoagent.history.cochange.score import LARGEST, stem
from repoagent.history.index.reader import Reach, base_reach, store, toggled
from repoagent.history.index.renames import FILE, LOW_KIND, Batch, Entry
from repoagent.history.index.schema import (
    AGES,
    BASE,
    HIGHEST,
    LOWEST,
    NUMBERS,
    NoIndex,
    get,
    put,
    unpacked,
)
from repoagent.history.log import Record, stream

_STRETCH = 512  # numbers in one row of a file's history
_NAME = """
INSERT INTO name (directory, base, file, stem, high, high_kind, low, low_kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  high_kind = iif(excluded.high > high, excluded.high_kind, high_kind), high = max(high, excluded.high),
  low_kind = iif(excluded.low < low, excluded.low_kind, low_kind), low = min(low, excluded.low)
"""


Row = tuple[int, int, int, int, "array[int] | None", bytes]  # of `commit_`
_End = tuple[int, int, int, bytes, int]  # number, kind, directory, base, file


class Rows:
    """The rows of a batch to write, and the ids of authors and directories."""

    def __init__(self, connection: sqlite3.Connection, batch: Batch) -> None:
        self.connection, self.batch = connection, batch
        self.commits: list[Row] = []
        self._authors: dict[bytes, int] = {}
        self._folders: dict[bytes, int] = {}
        if batch.back:  # all of the history follows, and separate queries would take longer
            self._authors.update(connection.execute("SELECT text, id FROM author"))
            self._folders.update(connection.execute("SELECT path, id FROM directory"))
        self._last_author, self._last_folder = _last(connection, "author"), _last(connection, "directory")
        self._new_authors: list[tuple[int, bytes]] = []
        self._new_folders: list[tuple[int, bytes]] = []

    def add(self, number: int, record: Record, *, edge: bool = False) -> None:
        """Add one commit. A commit at the `edge` of a shallow clone seems to add every file, so its files are left
        out."""
        identity, time, text, _ = record
        author = self._authors.get(text) or self._author(text)
        files = self.batch.take(number, record)
        size = max(len(files), LARGEST + 1) if edge else len(files)
        kept = array("I", files) if size <= LARGEST else None
        self.commits.append((AGES - number, time, author, size, kept, a2b_hex(identity)))

    def _author(self, text: bytes) -> int:
        row = None
        if not self.batch.back:
            row = self.connection.execute("SELECT id FROM author WHERE text = ?", (text,)).fetchone()
        if row is None:
            self._last_author += 1
            row = (self._last_author,)
            self._new_authors.append((row[0], text))
        self._authors[text] = row[0]
        return int(row[0])

    def write(self) -> None:
        """Write and forget the commits that were added, in the transaction of the caller."""
        batch, connection = self.batch, self.connection
        merged = {file: batch.find(file) for file in batch.merged}
        fresh = {file: merged[file] for file in batch.unwritten}
        connection.executemany("INSERT INTO author VALUES (?, ?)", self._new_authors)
        connection.executemany("INSERT INTO commit_ VALUES (?, ?, ?, ?, ?, ?)", _settled(self.commits, fresh))
        for file, into in fresh.items():
            _merge(connection, file, into)
        histories = sorted(batch.touched.items())
        if fresh:
            histories = [(file, sorted({*numbers}, reverse=batch.back)) for file, numbers in histories]
        if batch.back:  # older than all existing numbers: in rows of their own
            rows = ((file, numbers[-1], array(NUMBERS, numbers[::-1])) for file, numbers in histories)
            connection.executemany("INSERT INTO touch VALUES (?, ?, ?)", rows)
        else:
            _append(connection, histories)
        copies = (
            (merged.get(file, file), number, merged.get(origin, origin))
            for file, number, origin in batch.copies
        )
        connection.executemany("INSERT OR IGNORE INTO copy VALUES (?, ?, ?)", copies)
        self._write_names([*batch.past, *batch.names.items()], merged)
        batch.copies, batch.past, batch.names, batch.unwritten = [], [], {}, []
        batch.touched.clear()
        self.commits, self._new_authors = [], []

    def _write_names(self, names: Iterable[tuple[bytes, Entry]], merged: dict[int, int]) -> None:
        new: list[tuple[int, bytes, int, int, int, int, int, int]] = []
        older: list[_End] = []
        newer: list[_End] = []
        for path, (file, high, high_kind, low, low_kind) in names:
            folder, _, base = path.rpartition(b"/")
            directory = self._folders.get(folder) or self._folder(folder)
            file = merged.get(file, file)
            if high == LOWEST and low != HIGHEST:  # known, with older commits: the most frequent case
                older.append((low, low_kind, directory, base, file))
            elif low == HIGHEST and high != LOWEST:  # known, with newer commits
                newer.append((high, high_kind, directory, base, file))
            elif low != HIGHEST:
                new.append((directory, base, file, crc32(stem(path)) >> 1, high, high_kind, low, low_kind))
        self.connection.executemany("INSERT INTO directory VALUES (?, ?)", self._new_folders)
        self._new_folders = []
        self.connection.executemany(_NAME, new)
        for end, rows in (("low", older), ("high", newer)):
            self.connection.executemany(
                f"UPDATE name SET {end} = ?, {end}_kind = ? WHERE directory = ? AND base = ? AND file = ?",
                rows,
            )

    def _folder(self, path: bytes) -> int:
        row = None
        if not self.batch.back:
            row = self.connection.execute("SELECT id FROM directory WHERE path = ?", (path,)).fetchone()
        if row is None:
            self._last_folder += 1
            row = (self._last_folder,)
            self._new_folders.append((row[0], path))
        self._folders[path] = row[0]
        return int(row[0])


def _settled(commits: list[Row], merged: dict[int, int]) -> list[Row]:
    """The rows, after replacing files that have turned out to be the same as another."""
    if not merged:
        return commits
    settled = []
    for row in commits:
        age, time, author, _, files, identity = row
        if files and not merged.keys().isdisjoint(files):
            files = array("I", dict.fromkeys(merged.get(file, file) for file in files))
            row = (age, time, author, len(files), files, identity)
        settled.append(row)
    return settled


def _append(connection: sqlite3.Connection, histories: Iterable[tuple[int, list[int]]]) -> None:
    """Append ascending numbers, greater than all existing ones, to the history of each file."""
    numbers = dict(histories)
    newest = "low = (SELECT max(low) FROM touch WHERE file = value)"
    last = connection.execute(
        f"SELECT file, numbers FROM json_each(?) CROSS JOIN touch WHERE file = value AND {newest}",
        (str(list(numbers)),),
    )
    for file, known in last.fetchall():
        if len(known) < 4 * _STRETCH:
            numbers[file] = [*unpacked(NUMBERS, known), *numbers[file]]
    parts = (part for file, each in numbers.items() for part in _stretches(file, each))
    connection.executemany("INSERT OR REPLACE INTO touch VALUES (?, ?, ?)", parts)


def _stretches(file: int, numbers: list[int]) -> Iterator[tuple[int, int, array[int]]]:
    for start in range(0, len(numbers), 2 * _STRETCH):
        part = array(NUMBERS, numbers[start : start + 2 * _STRETCH])
        yield file, part[0], part


def touches(connection: sqlite3.Connection, file: int) -> list[int]:
    """The numbers of all commits that changed a file, ascending."""
    found: set[int] = set()
    for (numbers,) in connection.execute("SELECT numbers FROM touch WHERE file = ?", (file,)):
        found.update(unpacked(NUMBERS, numbers))
    return sorted(found)


def _merge(connection: sqlite3.Connection, file: int, into: int) -> None:
    """Merge the file into another one in the rows that are written already."""
    mine = touches(connection, file)
    if mine:
        for number in mine:
            _replace(connection, number, file, into)
        both = sorted({*mine, *touches(connection, into)})
        connection.execute("DELETE FROM touch WHERE file IN (?, ?)", (file, into))
        connection.executemany("INSERT INTO touch VALUES (?, ?, ?)", _stretches(into, both))
    columns = "directory, base, stem, high, high_kind, low, low_kind"
    names = connection.execute(f"SELECT {columns} FROM name WHERE file = ?", (file,)).fetchall()
    connection.execute("DELETE FROM name WHERE file = ?", (file,))
    connection.executemany(_NAME, [(directory, base, into, *rest) for directory, base, *rest in names])
    connection.execute("UPDATE OR IGNORE copy SET file = ? WHERE file = ?", (into, file))
    connection.execute("UPDATE copy SET origin = ? WHERE origin = ?", (into, file))


def _replace(connection: sqlite3.Connection, number: int, file: int, into: int) -> None:
    row = connection.execute("SELECT files FROM commit_ WHERE age = ?", (AGES - number,)).fetchone()
    if row is not None and row[0] is not None:
        files = array("I", dict.fromkeys(into if found == file else found for found in unpacked("I", row[0])))
        connection.execute(
            "UPDATE commit_ SET files = ?, size = ? WHERE age = ?", (files, len(files), AGES - number)
        )


def _last(connection: sqlite3.Connection, table: str) -> int:
    """The largest id in use."""
    return int(connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])


Progress = Callable[[int], None]  # called with the number of commits so far
_FIRST, _MOST = 512, 8192  # commits of a batch: small at first, so that queries soon have something
_SECONDS = 2.0  # a batch ends after this time at the latest
_LOOK = 64
_AT_ONCE = 400  # ids on one command line
_OLD = 64  # after so many consecutive commits before a date, all others are assumed to be older
_MINING, _WHOLE, _UNREADABLE, DATE = range(4)  # as in schema.ENDS
_ENDS = 3  # bits for the kind of an event below the file number


def begin(connection: sqlite3.Connection, base: bytes, signature: str) -> None:
    """Initialize the index with `base`, the newest commit so far."""
    with transaction(connection):
        put(
            connection,
            base=base,
            low=BASE,
            high=BASE,
            done=0,
            ended=_MINING,
            since=0,
            next_file=1,
            signature=signature,
        )
        store(connection, base, base_reach())


class Walk(NamedTuple):
    """How to read commits: until `deadline` (of time.monotonic); without `blobs` if a partial clone would fetch them;
    `edge` are commits whose parents a shallow clone lacks."""

    top: Path
    deadline: float = float("inf")
    blobs: bool = True
    edge: frozenset[bytes] = frozenset()


def go_back(connection: sqlite3.Connection, walk: Walk, progress: Progress | None = None) -> None:
    """Add older commits, newest first, until the deadline, the date limit of the index, or the end of the history. Each
    batch is written with the position.

    Raises NoIndex if git cannot read even the first commit; sqlite3.Error.
    """
    since = get(connection, "since")
    done, low = get(connection, "done"), get(connection, "low")
    ends = _oldest_ends(connection)
    batch = Batch(lambda path: _pair(ends.get(path)), get(connection, "next_file"), back=True)
    rows = Rows(connection, batch)
    base = connection.execute("SELECT value FROM meta WHERE key = 'base'").fetchone()[0]
    size, flushed, old, ended = _FIRST, time.monotonic(), 0, _WHOLE

    def flush(ended: int) -> None:
        for path, entry in batch.names.items():
            ends[path] = batch.find(entry[FILE]) << _ENDS | entry[LOW_KIND]
        with transaction(connection):
            rows.write()
            put(connection, done=done, low=low, ended=ended, next_file=batch.next_file)

    try:
        with closing(stream(walk.top, f"--skip={done}", base.decode(), blobs=walk.blobs)) as records:
            for record in records:
                low -= 1
                done += 1
                rows.add(low, record, edge=record.id in walk.edge)
                old = old + 1 if record.time < since else 0
                if done % _LOOK and old <= _OLD:
                    continue
                now = time.monotonic()
                if now >= walk.deadline or old > _OLD:
                    ended = DATE if old > _OLD else _MINING
                    break
                if len(rows.commits) >= size or now - flushed > _SECONDS:
                    flush(_MINING)
                    size, flushed = min(size * 2, _MOST), now
                if progress is not None:
                    progress(done)
    except GitError as error:
        if error.returncode < 0:  # killed, as by ^C
            raise
        if not done:
            raise NoIndex(_unreadable(error, partial=not walk.blobs)) from error
        ended = _UNREADABLE
    flush(ended)
    if progress is not None:
        progress(done)


def go_forward(connection: sqlite3.Connection, walk: Walk, tip: bytes, found: Reach) -> Reach:
    """Add the new commits of `found`, oldest first, and store what `tip` reaches. Returns the rest after the
    deadline."""
    new = found.new
    while new:
        some, new = new[:_AT_ONCE], new[_AT_ONCE:]
        high = get(connection, "high")
        batch = Batch(lambda path: _newest_end(connection, path), get(connection, "next_file"), back=False)
        rows = Rows(connection, batch)
        ids = [each.decode() for each in some]
        for number, record in enumerate(stream(walk.top, "--no-walk=unsorted", *ids, blobs=walk.blobs), high):
            rows.add(number, record, edge=record.id in walk.edge)
        with transaction(connection):
            rows.write()
            found = found._replace(bounds=toggled(found.bounds, range(high, high + len(some))), new=new)
            put(connection, high=high + len(some), next_file=batch.next_file)
            if not new:
                store(connection, tip, found)
        if time.monotonic() >= walk.deadline:
            return found
    if (
        not found.new
        and not connection.execute(
            "SELECT 1 FROM tip WHERE id = ?", (bytes.fromhex(tip.decode()),)
        ).fetchone()
    ):
        with transaction(connection):
            store(connection, tip, found)
    return found


def _unreadable(error: GitError, *, partial: bool) -> str:
    if partial:
        return (
            "this partial clone lacks the trees of its history; "
            "fetch them with `git fetch --refetch --filter=blob:none`"
        )
    return f"git cannot read the history: {(error.stderr or str(error)).splitlines()[-1]}"


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: commit at the end of the block, roll back on an exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have ended it, as on a full disk
            connection.execute("ROLLBACK")
        raise


def _pair(end: int | None) -> tuple[int, int] | None:
    return None if end is None else (end >> _ENDS, end & ((1 << _ENDS) - 1))


def _oldest_ends(connection: sqlite3.Connection) -> dict[bytes, int]:
    """For each path, the file and the kind of its oldest known event."""
    rows = connection.execute(
        "SELECT path, base, file, low_kind FROM name JOIN directory ON directory.id = directory ORDER BY low DESC"
    )
    return {
        (folder + b"/" if folder else b"") + base: file << _ENDS | kind for folder, base, file, kind in rows
    }


def _newest_end(connection: sqlite3.Connection, path: bytes) -> tuple[int, int] | None:
    folder, _, base = path.rpartition(b"/")
    row = connection.execute(
        "SELECT file, high_kind FROM directory JOIN name ON directory = id WHERE path = ? AND base = ? "
        "ORDER BY high DESC LIMIT 1",
        (folder, base),
    ).fetchone()
    return None if row is None else (row[0], row[1])
