"""`memory.db`: the hints of many memories in SQLite, derived from the identity files and rebuilt when it is missing.

A folder that appeared, vanished or was renamed changes the modification time of the memory folder, and the names are
listed again; a time as recent as the listing is not trusted, as in git's index. An identity edited in place shows when
a hint leads to it, or when all stamps are compared (`look_again`).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.database import (
    Damaged,
    Schema,
    Unusable,
    open_database,
    set_damaged_aside,
    sqlite_errors,
)
from repoagent.memory.identity.hints import (
    PATH,
    Change,
    DirectIndex,
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
_WAIT = 10.0  # seconds for another process that writes
_COARSE = 2_000_000_000  # ns: the coarsest clock of a file system in use (FAT)


@contextmanager
def open_cache(layout: Layout, warn: Warn) -> Iterator[IdentityIndex]:
    """The hints, brought up to date. Where `memory.db` cannot be used, all identity files are read, with a warning."""
    path = cache_file(layout)
    with ExitStack() as stack:
        index: IdentityIndex
        try:
            connection = stack.enter_context(closing(open_database(path, SCHEMA, warn, timeout=_WAIT)))
            index = cache = IdentityCache(connection, layout, warn)
            with sqlite_errors(path):
                cache.refresh()
        except (Damaged, Unusable, OSError, Refused) as error:
            stack.close()
            _report(path, error, warn)
            index = DirectIndex(layout, warn, newer=isinstance(error, Unusable))
        yield index


def _report(path: Path, error: Exception, warn: Warn) -> None:
    if isinstance(error, Damaged):
        set_damaged_aside(path, error, warn)
    else:
        warn(f"{error}; reading every memory instead, which is slower")


@dataclass
class IdentityCache:
    """The hints in an open `memory.db`."""

    connection: sqlite3.Connection
    layout: Layout
    warn: Warn
    identities: dict[str, Identity | None] = field(default_factory=dict)
    fallback: DirectIndex | None = None  # used when the database turns out to be unusable

    def names(self, kind: str, value: str) -> list[str]:
        rows = self._rows("SELECT name FROM hint WHERE kind = ? AND value = ?", kind, _packed(value))
        if rows is None:
            return self._direct().names(kind, value)
        return sorted(name for name in map(_text, rows) if "/" not in name and not name.startswith("."))

    def identity(self, name: str) -> Identity | None:
        if name not in self.identities:
            self.identities[name] = load_or_warn(self.layout.memory / name, self.warn)
        return self.identities[name]

    def paths(self) -> list[tuple[str, str]]:
        rows = self._rows("SELECT name, path FROM memory WHERE path IS NOT NULL")
        if rows is None:
            return self._direct().paths()
        return [(_unpacked(name), _unpacked(path)) for name, path in rows]

    def hints_of(self, name: str) -> Collection[Hint]:
        rows = self._rows("SELECT kind, value FROM hint WHERE name = ?", _packed(name))
        if rows is None:
            return self._direct().hints_of(name)
        return [(kind, _unpacked(value)) for kind, value in rows]

    def paths_from(self, prefix: str, limit: int) -> list[str]:
        low = _packed(prefix)
        sql = "SELECT DISTINCT value FROM hint WHERE kind = ? AND value >= ? AND value < ? ORDER BY 1 LIMIT ?"
        rows = self._rows(sql, PATH, low, low + b"\xff", limit)  # no byte of a path in UTF-8 is 0xff
        return self._direct().paths_from(prefix, limit) if rows is None else [_text(row) for row in rows]

    def count(self, limit: int) -> int:
        rows = self._rows("SELECT count(*) FROM (SELECT 1 FROM memory LIMIT ?)", limit)
        return self._direct().count(limit) if rows is None else int(rows[0][0])

    def _rows(self, sql: str, *values: str | bytes | int) -> list[Any] | None:
        """The rows; None when the file turns out to be unusable."""
        if self.fallback is None:
            with self._checked():
                return self.connection.execute(sql, values).fetchall()
        return None

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Read all identity files from here on when the database turns out to be unusable."""
        try:
            with sqlite_errors(cache_file(self.layout)):
                yield
        except (Damaged, Unusable) as error:
            _report(cache_file(self.layout), error, self.warn)
            self.fallback = DirectIndex(self.layout, self.warn)

    def _direct(self) -> DirectIndex:
        self.fallback = self.fallback or DirectIndex(self.layout, self.warn)
        return self.fallback

    def refresh(self) -> None:
        """List the names when the memory folder has changed, and look at what had no identity when it was read."""
        status = self.layout.memory.stat()
        now = f"{status.st_ino}:{status.st_mtime_ns}"
        known_now = self.connection.execute(
            "SELECT folder, settled, (SELECT count(*) FROM memory WHERE stamp IS NULL) FROM listed"
        ).fetchone()
        if known_now == (now, 1, 0):
            return
        if known_now is None or known_now[:2] != (now, 1):
            settled = time.time_ns() - status.st_mtime_ns > _COARSE
            known = {_text(row) for row in self.connection.execute("SELECT name FROM memory")}
            there = set(folders(self.layout.memory))
            if known != there or settled or known_now is None:
                with self._writing():
                    self._forget(known - there)
                    self._read(there - known)
                    self.connection.execute("DELETE FROM listed")
                    self.connection.execute("INSERT INTO listed VALUES (?, ?)", (now, int(settled)))
        unborn = [
            _text(row) for row in self.connection.execute("SELECT name FROM memory WHERE stamp IS NULL")
        ]
        born = [name for name in unborn if stamp(str(self.layout.memory), name)]
        if born:
            with self._writing():
                self._read(born)

    def look_again(self) -> bool:
        self.identities.clear()
        if self.fallback is not None:
            return False
        with self._checked():
            return self._compare()
        return True  # type: ignore[unreachable]  # _checked has switched to the fallback

    def note(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        if self.fallback is None:
            with self._checked(), self._writing():
                for name, before, after in changes:
                    self._put(name, "", after, hints(before) if before else set())
        if self.fallback is not None:
            self.fallback.note(changes)

    def _compare(self) -> bool:
        memory = str(self.layout.memory)
        rows = self.connection.execute("SELECT name, stamp FROM memory WHERE stamp IS NOT NULL").fetchall()
        known = ((_unpacked(name), known) for name, known in rows)
        changed = [name for name, known_stamp in known if stamp(memory, name) != known_stamp]
        if not changed:
            return False
        before = [self._hints_of(name) for name in changed]
        with self._writing():
            self._read(changed)
        return before != [self._hints_of(name) for name in changed]

    def _hints_of(self, name: str) -> list[Any]:
        rows = self.connection.execute(
            "SELECT kind, value FROM hint WHERE name = ? ORDER BY 1, 2", (_packed(name),)
        )
        return rows.fetchall()

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
        memory = str(self.layout.memory)
        for name in sorted(names):
            before = stamp(memory, name)  # taken first: a change in between will show
            identity = load_or_warn(self.layout.memory / name, self.warn) if before else None
            self._put(name, before if identity else None, identity, set())

    def _put(
        self, name: str, known: str | None, identity: Identity | None, more: set[tuple[str, str]]
    ) -> None:
        packed = _packed(name)
        self.connection.execute("DELETE FROM hint WHERE name = ?", (packed,))
        path = _packed(identity.path) if identity else None
        self.connection.execute("INSERT OR REPLACE INTO memory VALUES (?, ?, ?)", (packed, known, path))
        rows = {*(hints(identity) if identity else ()), *more}
        self.connection.executemany(
            "INSERT INTO hint VALUES (?, ?, ?)", [(kind, _packed(value), packed) for kind, value in rows]
        )

    def _forget(self, names: Iterable[str]) -> None:
        packed = [(_packed(name),) for name in names]
        self.connection.executemany("DELETE FROM hint WHERE name = ?", packed)
        self.connection.executemany("DELETE FROM memory WHERE name = ?", packed)


def _packed(text: str) -> bytes:
    """Any text, names that are no UTF-8 (decoded with os.fsdecode) and halves of pairs too."""
    return text.encode("utf-8", "surrogatepass")


def _unpacked(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _text(row: tuple[bytes]) -> str:
    return _unpacked(row[0])
