"""`memory.db`: the hints of many memories in SQLite, derived from the identity files and rebuilt when it is missing.

A folder that appeared, vanished or was renamed changes the modification time of the memory folder, and the names are
listed again; a time as recent as the listing is not trusted, as in git's index. An identity edited in place shows when
a hint leads to it, or when all stamps are compared (`look_again`).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
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
from repoagent.storage.jsonl import set_aside_broken
from repoagent.storage.layout import Layout, Warn

VERSION = 1
APPLICATION = 0x7270614D  # "rpaM", in the header of the file
_WAIT = 10.0  # seconds for another process that writes
_MAKE = f"""
CREATE TABLE listed (folder TEXT, settled INTEGER);
CREATE TABLE memory (name BLOB PRIMARY KEY, stamp TEXT, path BLOB) WITHOUT ROWID;
CREATE TABLE hint (kind TEXT, value BLOB, name BLOB, PRIMARY KEY (kind, value, name)) WITHOUT ROWID;
CREATE INDEX hint_name ON hint (name);
CREATE INDEX unborn ON memory (name) WHERE stamp IS NULL;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
"""
_OUTSIDE = (
    "database is locked",
    "attempt to write",
    "disk I/O",
    "database or disk is full",
    "unable to open",
)


class NewerFile(Exception):
    pass


def report_unusable(path: Path, error: Exception, warn: Warn) -> None:
    """Say why the file can't be used; a damaged one is put out of the way."""
    outside = isinstance(error, sqlite3.OperationalError) and str(error).startswith(_OUTSIDE)
    if isinstance(error, sqlite3.Error) and not outside:
        set_aside_broken(path, f"is damaged or was not created by repoagent ({error})", warn)
        path.with_name(path.name + "-journal").unlink(missing_ok=True)
    else:
        warn(f"cannot use {path} ({error}); reading every memory instead, which is slower")


def connect(path: Path, warn: Warn) -> sqlite3.Connection:
    """Open the file, made where it is missing. Raises sqlite3.Error for one that is not ours, NewerFile, OSError."""
    _clear_way(path, warn)
    connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # it may have come with somebody else's repository
        if _seen_version(connection) == 0:
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) == 0:
                for statement in _MAKE.split(";"):
                    connection.execute(statement)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _clear_way(path: Path, warn: Warn) -> None:
    """Put aside what is no regular file, and make a missing one for its owner alone.

    A file that is there is not opened here: to close it would drop the locks that another thread's SQLite has on it.
    """
    for each in (path, path.with_name(path.name + "-journal")):
        try:
            mode = os.lstat(each).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            set_aside_broken(each, "is not a regular file", warn)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _seen_version(connection: sqlite3.Connection) -> int:
    """As of one moment: another process may be making the file."""
    connection.execute("BEGIN")
    version = _version(connection)
    connection.execute("COMMIT")
    return version


def _version(connection: sqlite3.Connection) -> int:
    """What the file says; inside a transaction. Raises sqlite3.DatabaseError, NewerFile."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != (APPLICATION if version else 0):
        raise sqlite3.DatabaseError("wrong application id")
    if version > VERSION:
        raise NewerFile(f"format version {version} is newer than the supported {VERSION}; update repoagent")
    if not version and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
        raise sqlite3.DatabaseError("unknown tables")
    return version


_COARSE = 2_000_000_000  # ns: the coarsest clock of a file system in use (FAT)


@contextmanager
def open_cache(layout: Layout, warn: Warn) -> Iterator[IdentityIndex]:
    """The hints, brought up to date. Where `memory.db` can't be used, it is said and all identity files are read."""
    path = cache_file(layout)
    connection = None
    try:
        connection = connect(path, warn)
        shelf = IdentityCache(connection, layout, warn)
        shelf.refresh()
    except (sqlite3.Error, NewerFile, OSError, Refused) as error:
        if connection is not None:
            connection.close()
        report_unusable(path, error, warn)
        yield DirectIndex(layout, warn, newer=isinstance(error, NewerFile))
        return
    with closing(connection):
        yield shelf


@dataclass
class IdentityCache:
    """The hints in an open `memory.db`."""

    connection: sqlite3.Connection
    layout: Layout
    warn: Warn
    identities: dict[str, Identity | None] = field(default_factory=dict)
    instead: DirectIndex | None = None  # when the file has turned out to be damaged

    def names(self, kind: str, value: str) -> list[str]:
        rows = self._ask("SELECT name FROM hint WHERE kind = ? AND value = ?", kind, _packed(value))
        if rows is None:
            return self._few().names(kind, value)
        return sorted(name for name in map(_text, rows) if "/" not in name and not name.startswith("."))

    def identity(self, name: str) -> Identity | None:
        if name not in self.identities:
            self.identities[name] = load_or_warn(self.layout.memory / name, self.warn)
        return self.identities[name]

    def paths(self) -> list[tuple[str, str]]:
        rows = self._ask("SELECT name, path FROM memory WHERE path IS NOT NULL")
        return (
            self._few().paths()
            if rows is None
            else [(_unpacked(name), _unpacked(path)) for name, path in rows]
        )

    def hints_of(self, name: str) -> Collection[Hint]:
        rows = self._ask("SELECT kind, value FROM hint WHERE name = ?", _packed(name))
        return (
            self._few().hints_of(name) if rows is None else [(kind, _unpacked(value)) for kind, value in rows]
        )

    def paths_from(self, beginning: str, most: int) -> list[str]:
        low = _packed(beginning)
        question = (
            "SELECT DISTINCT value FROM hint WHERE kind = ? AND value >= ? AND value < ? ORDER BY 1 LIMIT ?"
        )
        rows = self._ask(question, PATH, low, low + b"\xff", most)  # no byte of a path in UTF-8 is 0xff
        return self._few().paths_from(beginning, most) if rows is None else [_text(row) for row in rows]

    def count(self, most: int) -> int:
        rows = self._ask("SELECT count(*) FROM (SELECT 1 FROM memory LIMIT ?)", most)
        return self._few().count(most) if rows is None else int(rows[0][0])

    def _ask(self, question: str, *values: str | bytes | int) -> list[Any] | None:
        """The rows; None when the file can't be used (any more)."""
        if self.instead is not None:
            return None
        try:
            return self.connection.execute(question, values).fetchall()
        except sqlite3.Error as error:
            self._leave(error)
            return None

    def _leave(self, error: sqlite3.Error) -> None:
        report_unusable(cache_file(self.layout), error, self.warn)
        self.instead = DirectIndex(self.layout, self.warn)

    def _few(self) -> DirectIndex:
        if self.instead is None:
            self.instead = DirectIndex(self.layout, self.warn)
        return self.instead

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
        try:
            return self.instead is None and self._compare()
        except sqlite3.Error as error:
            self._leave(error)
            return True

    def note(self, changes: Iterable[Change]) -> None:
        if self.instead is not None:
            return self.instead.note(changes)
        try:
            with self._writing():
                for name, before, after in changes:
                    self._put(name, "", after, hints(before) if before else set())
        except sqlite3.Error as error:
            self._leave(error)
            self._few().note(changes)

    def _compare(self) -> bool:
        memory = str(self.layout.memory)
        rows = self.connection.execute("SELECT name, stamp FROM memory WHERE stamp IS NOT NULL").fetchall()
        changed = [
            name
            for name, known in ((_unpacked(name), known) for name, known in rows)
            if stamp(memory, name) != known
        ]
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
