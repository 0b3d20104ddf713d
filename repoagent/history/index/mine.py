"""Fill the index: back from the commit that it began with, and forward by the commits that are new."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from repoagent.history.index.errors import NoIndex
from repoagent.history.index.identity import FILE, LOW_KIND, Batch
from repoagent.history.index.reach import Reach, base_reach, store, toggled
from repoagent.history.index.schema import BASE, get, put
from repoagent.history.index.write import Rows
from repoagent.history.stream import stream
from repoagent.repo.run import GitError

Progress = Callable[[int], None]  # takes how many commits have been mined by now
_FIRST, _MOST = 512, 8192  # commits of a batch: small ones at first, so that there is something soon
_SECONDS = 2.0  # and never more than were read in that time
_LOOK = 64
_AT_ONCE = 400  # ids on one command line
_OLD = 64  # so many commits in a row before a date, and all further ones are taken to be
_MINING, _WHOLE, _UNREADABLE, DATE = range(4)  # as in schema.ENDS
_ENDS = 3  # the shift of a file's number above the kind of an event, in what is kept of a path


def begin(connection: sqlite3.Connection, base: bytes, signature: str) -> None:
    """Say what the index begins with: its newest commit for now."""
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
    """How commits are read: until `deadline` (of time.monotonic); without `blobs` none is opened, as a partial clone
    would fetch them; `edge` are commits whose parents a shallow clone lacks."""

    top: Path
    deadline: float = float("inf")
    blobs: bool = True
    edge: frozenset[bytes] = frozenset()


def go_back(connection: sqlite3.Connection, walk: Walk, progress: Progress | None = None) -> None:
    """Mine on where the last mining ended, newest first, until time is up, the commits are older than the date that the
    index goes back to, or there are no more. Each batch is written with how far it is.

    Raises NoIndex where git can't read even the first; sqlite3.Error.
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
        if error.returncode < 0:  # ended from outside, as by ^C
            raise
        if not done:
            raise NoIndex(_unreadable(error, partial=not walk.blobs)) from error
        ended = _UNREADABLE
    flush(ended)
    if progress is not None:
        progress(done)


def go_forward(connection: sqlite3.Connection, walk: Walk, tip: bytes, found: Reach) -> Reach:
    """Add the commits that `found` calls new, oldest first, and keep what `tip` reaches; the rest when time is up."""
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
            "this partial clone lacks the trees of its history, and nothing is fetched for an index: "
            "git fetch --refetch --filter=blob:none brings them"
        )
    return f"git can't read the history: {(error.stderr or str(error)).splitlines()[-1]}"


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that the block writes, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has ended it by itself when the disk is full, say
            connection.execute("ROLLBACK")
        raise


def _pair(end: int | None) -> tuple[int, int] | None:
    return None if end is None else (end >> _ENDS, end & ((1 << _ENDS) - 1))


def _oldest_ends(connection: sqlite3.Connection) -> dict[bytes, int]:
    """The file of each path, and the kind of event, at the old end of what is known."""
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
