"""Open a SQLite file that is derived from plain files: private, checked, and renamed if it is damaged."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from repoagent.errors import Refused, UsageError
from repoagent.storage.atomic import set_aside_broken
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Warn

_WAIT = 10.0  # seconds to wait for another process that writes
_SIDECARS = ("-wal", "-shm", "-journal")
# beginnings of messages of SQLite about the disk or other processes, not the content of the file
_OUTSIDE = ("database is locked", "attempt to write", "disk I/O", "database or disk", "unable to open")


class DatabaseDamaged(Exception):
    """The file is broken or was created by another program."""


class DatabaseUnusable(Refused):
    """The file cannot be used now: it is locked or read-only, or was written by a newer repoagent."""


class DatabaseSchema(NamedTuple):
    """The schema of a database: the application id and the version in the file's header, and the SQL statements that
    create the tables."""

    application: int
    version: int
    tables: str

    def create(self, connection: sqlite3.Connection) -> None:
        """Create the tables in place of all others, within the caller's transaction."""
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rootpage"
        for (name,) in connection.execute(tables).fetchall():  # virtual tables first: they drop others
            connection.execute('DROP TABLE IF EXISTS "{}"'.format(name.replace('"', '""')))
        for statement in self.tables.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {self.application}")
        connection.execute(f"PRAGMA user_version = {self.version}")

    def is_in(self, connection: sqlite3.Connection, path: Path) -> bool:
        """Whether the file has these tables; False if it is empty or has an older version of the schema. Raises
        DatabaseUnusable for a newer version, and DatabaseDamaged for any other file."""
        objects = "SELECT count(*) FROM sqlite_schema"
        programs = f"{objects} WHERE type IN ('trigger', 'view')"  # we create none, and others' need not end
        application, version, tables, foreign = (
            int(connection.execute(query).fetchone()[0])
            for query in ("PRAGMA application_id", "PRAGMA user_version", objects, programs)
        )
        is_ours = application == self.application
        if not (application or version or tables) or (is_ours and version < self.version):
            return False
        if is_ours and version > self.version:
            raise DatabaseUnusable(
                f"{path} has format version {version}, newer than the supported {self.version}; "
                "update repoagent or delete the file"
            )
        if not is_ours:
            raise DatabaseDamaged("wrong application id")
        if foreign:
            raise DatabaseDamaged("it has triggers or views")
        return True


def explained(path: Path, error: sqlite3.Error) -> Exception:
    """Convert a SQLite error to DatabaseDamaged or DatabaseUnusable, or to UsageError if SQLite lacks a module."""
    if str(error).startswith("no such module"):
        return UsageError("this Python's SQLite lacks full-text search (FTS5); use another Python")
    if isinstance(error, sqlite3.OperationalError) and str(error).startswith(_OUTSIDE):
        return DatabaseUnusable(f"cannot use {path} ({error}); check its permissions and the free disk space")
    return DatabaseDamaged(str(error))


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Convert SQLite errors with `explained`."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(path, error) from error


def open_database(path: Path, schema: DatabaseSchema, warn: Warn, *, wal: bool = False) -> sqlite3.Connection:
    """Open the file, and create it if it is missing. Raises DatabaseDamaged and DatabaseUnusable."""
    try:
        for file in _in_the_way(path):
            set_aside_broken(file, "is not a regular file", warn)
        # An existing file is not opened: closing it would drop the locks of another thread's SQLite. A new one is
        # private; SQLite gives its other files the same mode.
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise DatabaseUnusable(f"cannot create {path} ({error.strerror})") from error
    with _connected(path, "rwc") as connection:
        connection.execute("BEGIN")  # read from one snapshot: another process may be creating the file
        is_created = schema.is_in(connection, path)
        connection.execute("COMMIT")
        if not is_created:
            if wal:
                connection.execute("PRAGMA journal_mode = WAL")
            with transaction(connection):
                if not schema.is_in(connection, path):
                    schema.create(connection)
    return connection


def open_to_read(path: Path, schema: DatabaseSchema) -> sqlite3.Connection | None:
    """Open the file for reading; None if it is missing or must be created again. Raises DatabaseUnusable."""
    with suppress(FileNotFoundError, DatabaseDamaged):
        if not _in_the_way(path) and path.exists():
            with _connected(path, "ro") as connection:
                if schema.is_in(connection, path):
                    return connection
                raise DatabaseDamaged("empty")
    return None


@contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """A connection, closed if the block fails. Converts SQLite errors with `explained`."""
    name = "".join(f"%{byte:02x}" for byte in bytes(path))  # urllib takes longer to load than a query
    with sqlite_errors(path):
        connection = sqlite3.connect(
            f"file:{name}?mode={mode}", uri=True, timeout=_WAIT, isolation_level=None
        )
        try:
            connection.execute("PRAGMA trusted_schema = OFF")  # the file may come with a foreign repository
            yield connection
        except BaseException:
            connection.close()
            raise


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


def _in_the_way(path: Path) -> list[Path]:
    """The file, and those of SQLite next to it, that are not regular. Raises FileNotFoundError, DatabaseUnusable."""
    files = []
    try:
        with open_folder(path.parent):
            for file in (path, *(path.with_name(path.name + ending) for ending in _SIDECARS)):
                with suppress(FileNotFoundError):
                    if not stat.S_ISREG(os.lstat(file).st_mode):
                        files.append(file)
    except Refused as error:
        raise DatabaseUnusable(str(error)) from error
    return files


def set_damaged_aside(path: Path, error: Exception, warn: Warn) -> None:
    """Rename a damaged file; it is derived, so nothing is lost."""
    set_aside_broken(path, f"is damaged or was not created by repoagent ({error})", warn)
    for ending in _SIDECARS:
        path.with_name(path.name + ending).unlink(missing_ok=True)
