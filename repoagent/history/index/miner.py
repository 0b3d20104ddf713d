"""Fill the index in batches, one transaction each: older commits backwards from where the index began, new commits
forwards; and record which paths exist in the tree of HEAD."""

from __future__ import annotations

import sqlite3
import time
from array import array
from binascii import a2b_hex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from repoagent.git.process import OFFLINE, GitError, git
from repoagent.history.cochange import MOST_FILES, name_stem
from repoagent.history.index import schema
from repoagent.history.index.reader import IndexView, ReachableCommits, compute_reach, store_reach, toggled
from repoagent.history.index.renames import FILE, LOW_KIND, Entry, RenameBatch
from repoagent.history.index.schema import (
    AGES,
    BASE,
    HIGHEST,
    LOWEST,
    NUMBERS,
    commit_id,
    get_integer,
    put_value,
    unpack_numbers,
)
from repoagent.history.log import LogRecord, stream_log
from repoagent.storage.database import DatabaseUnusable, transaction

_STRETCH = 512  # numbers in one row of a file's history
_NAME = """
INSERT INTO name (directory, base, file, stem, high, high_kind, low, low_kind) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  high_kind = iif(excluded.high > high, excluded.high_kind, high_kind), high = max(high, excluded.high),
  low_kind = iif(excluded.low < low, excluded.low_kind, low_kind), low = min(low, excluded.low)
"""


Row = tuple[int, int, int, int, "array[int] | None", bytes]  # of `commit_`
_End = tuple[int, int, int, bytes, int]  # number, kind, directory, base, file


class _Ids:
    """The ids of the texts in a table of authors or directories; new ones are written later."""

    def __init__(self, connection: sqlite3.Connection, table: str, column: str, *, whole: bool) -> None:
        self._connection, self._insert = connection, f"INSERT INTO {table} VALUES (?, ?)"
        self._select = f"SELECT id FROM {table} WHERE {column} = ?"
        self.known: dict[bytes, int] = {}
        self._last = int(connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])
        self._new: list[tuple[int, bytes]] = []
        self._whole = whole  # all of the history follows, and separate queries would take longer
        if whole:
            self.known.update(connection.execute(f"SELECT {column}, id FROM {table}"))

    def add(self, text: bytes) -> int:
        row = None if self._whole else self._connection.execute(self._select, (text,)).fetchone()
        if row is None:
            self._last += 1
            row = (self._last,)
            self._new.append((self._last, text))
        self.known[text] = row[0]
        return int(row[0])

    def write(self) -> None:
        self._connection.executemany(self._insert, self._new)
        self._new = []


class Rows:
    """The rows to write in a batch, and the ids of authors and directories."""

    def __init__(self, connection: sqlite3.Connection, batch: RenameBatch) -> None:
        self.connection, self.batch = connection, batch
        self.commits: list[Row] = []
        self._authors = _Ids(connection, "author", "text", whole=batch.back)
        self._folders = _Ids(connection, "directory", "path", whole=batch.back)

    def add(self, number: int, record: LogRecord, *, edge: bool = False) -> None:
        """Add one commit. A commit at the `edge` of a shallow clone seems to add every file, so its files are left
        out."""
        identity, time, text, _ = record
        author = self._authors.known.get(text) or self._authors.add(text)
        files = self.batch.take(number, record)
        size = max(len(files), MOST_FILES + 1) if edge else len(files)
        packed = array("I", files) if size <= MOST_FILES else None
        self.commits.append((AGES - number, time, author, size, packed, a2b_hex(identity)))

    def write(self) -> None:
        """Write the added commits in the caller's transaction, and forget them."""
        batch, connection = self.batch, self.connection
        merged = {file: batch.find(file) for file in batch.merged}
        fresh = {file: merged[file] for file in batch.unwritten}
        self._authors.write()
        for at, (age, seconds, author, _, files, identity) in enumerate(self.commits if fresh else ()):
            if files and not fresh.keys().isdisjoint(
                files
            ):  # of files that turned out to be the same as another
                files = array("I", dict.fromkeys(fresh.get(file, file) for file in files))
                self.commits[at] = (age, seconds, author, len(files), files, identity)
        connection.executemany("INSERT INTO commit_ VALUES (?, ?, ?, ?, ?, ?)", self.commits)
        for file, into in fresh.items():
            _merge(connection, file, into)
        histories = sorted(batch.touched.items())
        if fresh:
            histories = [(file, sorted({*numbers}, reverse=batch.back)) for file, numbers in histories]
        if batch.back:  # older than all existing numbers: in rows of their own
            rows = ((file, numbers[-1], array(NUMBERS, numbers[::-1])) for file, numbers in histories)
            connection.executemany("INSERT INTO touch VALUES (?, ?, ?)", rows)
        else:  # greater than all existing numbers
            added = dict(histories)
            newest = "low = (SELECT max(low) FROM touch WHERE file = value)"
            last = connection.execute(
                f"SELECT file, numbers FROM json_each(?) CROSS JOIN touch WHERE file = value AND {newest}",
                (str(list(added)),),
            )
            for file, known in last.fetchall():
                if len(known) < 4 * _STRETCH:
                    added[file] = [*unpack_numbers(NUMBERS, known), *added[file]]
            parts = (part for file, numbers in added.items() for part in _stretches(file, numbers))
            connection.executemany("INSERT OR REPLACE INTO touch VALUES (?, ?, ?)", parts)
        self._write_names([*batch.past, *batch.names.items()], merged)
        batch.past, batch.names, batch.unwritten = [], {}, []
        batch.touched.clear()
        self.commits = []

    def _write_names(self, names: Iterable[tuple[bytes, Entry]], merged: dict[int, int]) -> None:
        new: list[tuple[int, bytes, int, int, int, int, int, int]] = []
        older: list[_End] = []
        newer: list[_End] = []
        for path, (file, high, high_kind, low, low_kind) in names:
            folder, _, base = path.rpartition(b"/")
            directory = self._folders.known.get(folder) or self._folders.add(folder)
            file = merged.get(file, file)
            if high == LOWEST and low != HIGHEST:  # known, with older commits: the most frequent case
                older.append((low, low_kind, directory, base, file))
            elif low == HIGHEST and high != LOWEST:  # known, with newer commits
                newer.append((high, high_kind, directory, base, file))
            elif low != HIGHEST:
                new.append(
                    (directory, base, file, crc32(name_stem(path)) >> 1, high, high_kind, low, low_kind)
                )
        self._folders.write()
        self.connection.executemany(_NAME, new)
        for end, rows in (("low", older), ("high", newer)):
            self.connection.executemany(
                f"UPDATE name SET {end} = ?, {end}_kind = ? WHERE directory = ? AND base = ? AND file = ?",
                rows,
            )


def _stretches(file: int, numbers: list[int]) -> Iterator[tuple[int, int, array[int]]]:
    for start in range(0, len(numbers), 2 * _STRETCH):
        part = array(NUMBERS, numbers[start : start + 2 * _STRETCH])
        yield file, part[0], part


def _touches(connection: sqlite3.Connection, file: int) -> set[int]:
    rows = connection.execute("SELECT numbers FROM touch WHERE file = ?", (file,))
    return {number for (data,) in rows for number in unpack_numbers(NUMBERS, data)}


def _merge(connection: sqlite3.Connection, file: int, into: int) -> None:
    """Merge the file into another one in the rows that are written already."""
    mine = _touches(connection, file)
    for number in mine:
        row = connection.execute("SELECT files FROM commit_ WHERE age = ?", (AGES - number,)).fetchone()
        if row is not None and row[0] is not None:
            files = array(
                "I", dict.fromkeys(into if each == file else each for each in unpack_numbers("I", row[0]))
            )
            update = "UPDATE commit_ SET files = ?, size = ? WHERE age = ?"
            connection.execute(update, (files, len(files), AGES - number))
    if mine:
        both = sorted(mine | _touches(connection, into))
        connection.execute("DELETE FROM touch WHERE file IN (?, ?)", (file, into))
        connection.executemany("INSERT INTO touch VALUES (?, ?, ?)", _stretches(into, both))
    columns = "directory, base, stem, high, high_kind, low, low_kind"
    names = connection.execute(f"SELECT {columns} FROM name WHERE file = ?", (file,)).fetchall()
    connection.execute("DELETE FROM name WHERE file = ?", (file,))
    connection.executemany(_NAME, [(directory, base, into, *rest) for directory, base, *rest in names])


Progress = Callable[[int], None]  # called with the number of commits so far
_FIRST, _MOST = 512, 8192  # commits of a batch: small at first, so that queries soon have something
_SECONDS = 2.0  # a batch ends after this time at the latest
_LOOK = 64
_AT_ONCE = 400  # ids on one command line
_ENDS = 3  # bits for the kind of an event below the file number


def begin(connection: sqlite3.Connection, base: bytes, signature: str) -> None:
    with transaction(connection):
        put_value(
            connection,
            base=base,
            low=BASE,
            high=BASE,
            done=0,
            ended=schema.MINING,
            next_file=1,
            signature=signature,
        )
        store_reach(connection, base, ReachableCommits((LOWEST, BASE)))


class Walk(NamedTuple):
    """How to read commits: until `deadline` (a value of `time.monotonic`); `blobs` is False in a partial clone, which
    would fetch them; `edge` are commits whose parents a shallow clone lacks."""

    top: Path
    deadline: float = float("inf")
    blobs: bool = True
    edge: frozenset[bytes] = frozenset()


def go_back(connection: sqlite3.Connection, walk: Walk, progress: Progress | None = None) -> None:
    """Add older commits, newest first, until the deadline or the end of the history. Each batch is stored together with
    the position reached.

    Raises DatabaseUnusable if git cannot read even the first commit, sqlite3.Error if the index cannot be written.
    """
    done, low = get_integer(connection, "done"), get_integer(connection, "low")
    ends = {  # for each path, the file and the kind of its oldest known event
        (folder + b"/" if folder else b"") + base: file << _ENDS | kind
        for folder, base, file, kind in connection.execute(
            "SELECT path, base, file, low_kind FROM name JOIN directory ON directory.id = directory "
            "ORDER BY low DESC"
        )
    }

    def oldest_end(path: bytes) -> tuple[int, int] | None:
        end = ends.get(path)
        return None if end is None else (end >> _ENDS, end & ((1 << _ENDS) - 1))

    batch = RenameBatch(oldest_end, get_integer(connection, "next_file"), back=True)
    rows = Rows(connection, batch)
    base = commit_id(connection, "base") or b""
    size, flushed, ended = _FIRST, time.monotonic(), schema.WHOLE

    def flush(ended: int) -> None:
        for path, entry in batch.names.items():
            ends[path] = batch.find(entry[FILE]) << _ENDS | entry[LOW_KIND]
        with transaction(connection):
            rows.write()
            put_value(connection, done=done, low=low, ended=ended, next_file=batch.next_file)

    try:
        with closing(stream_log(walk.top, f"--skip={done}", base.decode(), blobs=walk.blobs)) as records:
            for record in records:
                low -= 1
                done += 1
                rows.add(low, record, edge=record.id in walk.edge)
                if done % _LOOK:
                    continue
                now = time.monotonic()
                if now >= walk.deadline:
                    ended = schema.MINING
                    break
                if len(rows.commits) >= size or now - flushed > _SECONDS:
                    flush(schema.MINING)
                    size, flushed = min(size * 2, _MOST), now
                if progress is not None:
                    progress(done)
    except GitError as error:
        if error.returncode < 0:  # killed, as by ^C
            raise
        if not done:
            if not walk.blobs:
                raise DatabaseUnusable(
                    "this partial clone lacks the trees of its history; "
                    "fetch them with `git fetch --refetch --filter=blob:none`"
                ) from error
            reason = (error.stderr or str(error)).splitlines()[-1]
            raise DatabaseUnusable(f"git cannot read the history: {reason}") from error
        ended = schema.UNREADABLE
    flush(ended)
    if progress is not None:
        progress(done)


def go_forward(connection: sqlite3.Connection, walk: Walk, tip: bytes, reached: ReachableCommits) -> None:
    """Add the new commits of `reached`, oldest first, until the deadline, and store what `tip` reaches."""

    def newest_end(path: bytes) -> tuple[int, int] | None:
        folder, _, base = path.rpartition(b"/")
        query = (
            "SELECT file, high_kind FROM directory JOIN name ON directory = id WHERE path = ? AND base = ? "
            "ORDER BY high DESC LIMIT 1"
        )
        row = connection.execute(query, (folder, base)).fetchone()
        return None if row is None else (row[0], row[1])

    bounds, new = reached.bounds, reached.new
    while new:
        some, new = new[:_AT_ONCE], new[_AT_ONCE:]
        high = get_integer(connection, "high")
        batch = RenameBatch(newest_end, get_integer(connection, "next_file"), back=False)
        rows = Rows(connection, batch)
        ids = [each.decode() for each in some]
        for number, record in enumerate(
            stream_log(walk.top, "--no-walk=unsorted", *ids, blobs=walk.blobs), high
        ):
            rows.add(number, record, edge=record.id in walk.edge)
        bounds = toggled(bounds, range(high, high + len(some)))
        with transaction(connection):
            rows.write()
            put_value(connection, high=high + len(some), next_file=batch.next_file)
            if not new:
                store_reach(connection, tip, ReachableCommits(bounds, (), reached.floor))
        if time.monotonic() >= walk.deadline:
            return
    stored = connection.execute("SELECT 1 FROM tip WHERE id = ?", (bytes.fromhex(tip.decode()),)).fetchone()
    if not stored:
        with transaction(connection):
            store_reach(connection, tip, ReachableCommits(bounds, (), reached.floor))


def record_tree(connection: sqlite3.Connection, top: Path, tip: bytes) -> None:
    """Record which paths exist in the tree of `tip`: by comparing it with the recorded tree if possible, otherwise by
    listing the whole tree."""
    before = commit_id(connection, "alive")
    if before == tip:
        return
    gone: list[bytes] = []
    come: list[bytes] | None = None
    if before is not None:
        options = ("-r", "-z", "--no-renames", "--name-status")
        with suppress(GitError):  # the recorded tree was pruned
            tokens = git(top, "diff-tree", *options, before, tip, "--", env=OFFLINE).split(b"\0")
            changes = list(zip(tokens[::2], tokens[1::2], strict=False))
            # a changed path may belong to another file now
            gone = [path for kind, path in changes if kind != b"A"]
            come = [path for kind, path in changes if kind != b"D"]
    view = IndexView(connection, compute_reach(connection, top, tip).bounds, None)
    with transaction(connection):
        if come is None:
            connection.execute("UPDATE name SET alive = 0 WHERE alive")
            listing = ("ls-tree", "-r", "-z", "--full-tree", "--name-only", tip)
            come = git(top, *listing, env=OFFLINE).split(b"\0")[:-1]
        where = "directory = (SELECT id FROM directory WHERE path = ?1) AND base = ?2"
        connection.executemany(
            f"UPDATE name SET alive = 0 WHERE {where}", (path.rpartition(b"/")[::2] for path in gone)
        )
        # like `view.file`, which is too slow for each path of a tree
        holder = f"coalesce(?3, (SELECT file FROM name WHERE {where} ORDER BY high DESC))"
        connection.executemany(
            f"UPDATE name SET alive = 1 WHERE {where} AND file = {holder}",
            ((*path.rpartition(b"/")[::2], None if view.whole else view.file(path) or 0) for path in come),
        )
        put_value(connection, alive=tip)
