"""`memory.db`: the hints of many memories in SQLite, derived from the identity files and rebuilt if it is missing.

Names are listed again if the modification time of the memory folder has changed: a folder was added, removed or
renamed. As in git's index, a time as recent as the listing is not trusted. An identity edited in place is noticed when
it is read, or when all stamps are compared (`look_again`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager

from repoagent.errors import Refused
from repoagent.memory.database import (
    Damaged,
    Schema,
    Unusable,
    explained,
    open_database,
    set_damaged_aside,
    sqlite_errors,
)
from repoagent.memory.identity.hints import (
    Change,
    Hint,
    IdentityIndex,
    cache_file,
    folders,
    hints,
    load_or_warn,
    stamp,
)
from repoagent.memory.identity.record import Identity
from repoagent.storage.layout import Layout, Warn

_TABLES = """
CREATE TABLE listed (folder TEXT, settled INTEGER);
CREATE TABLE memory (name BLOB PRIMARY KEY, stamp TEXT, path BLOB) WITHOUT ROWID;
CREATE TABLE hint (kind TEXT, value BLOB, name BLOB, PRIMARY KEY (kind, value, name)) WITHOUT ROWID;
CREATE INDEX hint_name ON hint (name);
CREATE INDEX unborn ON memory (name) WHERE stamp IS NULL;
"""
SCHEMA = Schema(0x7270614D, 1, _TABLES)  # "rpaM"
_WAIT = 10.0  # seconds to wait for another process that writes
_COARSE = 2_000_000_000  # ns: the coarsest resolution of file times (FAT)


@contextmanager
def open_cache(layout: Layout, warn: Warn) -> Iterator[IdentityIndex]:
    """Open and update the hints. If `memory.db` cannot be used, warns and reads all identity files."""
    path = cache_file(layout)
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(closing(open_database(path, SCHEMA, warn, timeout=_WAIT)))
            cache = IdentityCache(connection, layout, warn)
            with sqlite_errors(path):
                cache.refresh()
        except (Damaged, Unusable, OSError, Refused) as error:
            stack.close()
            if isinstance(error, Damaged):
                set_damaged_aside(path, error, warn)
            else:
                warn(f"{error}; reading every memory instead, which is slower")
            yield IdentityIndex(layout, warn, keep_file=isinstance(error, Unusable))
            return
        try:
            yield cache
        except sqlite3.Error as raw:  # damage that the update did not touch
            reason = explained(path, raw)
            if isinstance(reason, Damaged):
                set_damaged_aside(path, reason, warn)
            raise Refused(f"cannot use {path} ({raw}); run the command again") from raw


class IdentityCache(IdentityIndex):
    """The hints in an open `memory.db`."""

    def __init__(self, connection: sqlite3.Connection, layout: Layout, warn: Warn) -> None:
        self.connection, self.layout, self.warn = connection, layout, warn
        self._loaded: dict[str, Identity | None] = {}

    def names(self, kind: str, value: str) -> list[str]:
        rows = self._column("SELECT name FROM hint WHERE kind = ? AND value = ?", kind, _packed(value))
        return sorted(name for name in rows if "/" not in name and not name.startswith("."))

    def identity(self, name: str) -> Identity | None:
        if name not in self._loaded:
            self._loaded[name] = load_or_warn(self.layout.memory / name, self.warn)
        return self._loaded[name]

    def paths(self) -> list[tuple[str, str]]:
        rows = self.connection.execute("SELECT name, path FROM memory WHERE path IS NOT NULL")
        return [(_unpacked(name), _unpacked(path)) for name, path in rows]

    def hints_of(self, name: str) -> Collection[Hint]:
        rows = self.connection.execute("SELECT kind, value FROM hint WHERE name = ?", (_packed(name),))
        return [(kind, _unpacked(value)) for kind, value in rows]

    def count(self, limit: int) -> int:
        rows = self.connection.execute("SELECT count(*) FROM (SELECT 1 FROM memory LIMIT ?)", (limit,))
        return int(rows.fetchone()[0])

    def look_again(self) -> bool:
        self._loaded.clear()
        memory = str(self.layout.memory)
        rows = self.connection.execute("SELECT name, stamp FROM memory WHERE stamp IS NOT NULL").fetchall()
        changed = [_unpacked(name) for name, old in rows if stamp(memory, _unpacked(name)) != old]
        if not changed:
            return False
        before = [set(self.hints_of(name)) for name in changed]
        with self._writing():
            self._read(changed)
        return before != [set(self.hints_of(name)) for name in changed]

    def note(self, changes: Iterable[Change]) -> None:
        with self._writing():
            for name, before, after in changes:
                self._put(name, "", after, hints(before) if before else set())

    def refresh(self) -> None:
        """List the names again if the memory folder has changed, and read folders that had no identity before."""
        status = self.layout.memory.stat()
        current = f"{status.st_ino}:{status.st_mtime_ns}"
        listed = self.connection.execute("SELECT folder, settled FROM listed").fetchone()
        if listed != (current, 1):
            is_settled = time.time_ns() - status.st_mtime_ns > _COARSE
            known = set(self._column("SELECT name FROM memory"))
            present = set(folders(self.layout.memory))
            if known != present or is_settled or listed is None:
                with self._writing():
                    gone = [(_packed(name),) for name in known - present]
                    self.connection.executemany("DELETE FROM hint WHERE name = ?", gone)
                    self.connection.executemany("DELETE FROM memory WHERE name = ?", gone)
                    self._read(present - known)
                    self.connection.execute("DELETE FROM listed")
                    self.connection.execute("INSERT INTO listed VALUES (?, ?)", (current, int(is_settled)))
        memory = str(self.layout.memory)
        unborn = self._column("SELECT name FROM memory WHERE stamp IS NULL")
        if born := [name for name in unborn if stamp(memory, name)]:
            with self._writing():
                self._read(born)

    def _column(self, sql: str, *values: str | bytes | int) -> list[str]:
        return [_unpacked(row[0]) for row in self.connection.execute(sql, values)]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def _read(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            read_at = stamp(str(self.layout.memory), name)  # before reading, to notice a later change
            identity = load_or_warn(self.layout.memory / name, self.warn) if read_at else None
            self._put(name, read_at if identity else None, identity, set())

    def _put(self, name: str, read_at: str | None, identity: Identity | None, more: set[Hint]) -> None:
        packed = _packed(name)
        path = _packed(identity.path) if identity else None
        rows = {*(hints(identity) if identity else ()), *more}
        self.connection.execute("DELETE FROM hint WHERE name = ?", (packed,))
        self.connection.execute("INSERT OR REPLACE INTO memory VALUES (?, ?, ?)", (packed, read_at, path))
        self.connection.executemany(
            "INSERT INTO hint VALUES (?, ?, ?)", [(kind, _packed(value), packed) for kind, value in rows]
        )


def _packed(text: str) -> bytes:
    """Encode any text, including file names that are not UTF-8 (decoded with os.fsdecode) and lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _unpacked(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
