"""The file `memory.db`: opened, made where it is missing, told from what is not ours."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from repoagent.store import Warn
from repoagent.store.document import put_aside

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


def give_up(path: Path, error: Exception, warn: Warn) -> None:
    """Say why the file can't be used; a damaged one is put out of the way."""
    outside = isinstance(error, sqlite3.OperationalError) and str(error).startswith(_OUTSIDE)
    if isinstance(error, sqlite3.Error) and not outside:
        put_aside(path, f"is damaged or not repoagent's own ({error})", warn)
        path.with_name(path.name + "-journal").unlink(missing_ok=True)
    else:
        warn(f"{path} can't be used ({error}), so every memory is read, which takes longer")


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
            put_aside(each, "is not a regular file", warn)
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
        raise sqlite3.DatabaseError("it has the mark of another program")
    if version > VERSION:
        raise NewerFile(
            f"its format version is {version} and this repoagent knows up to {VERSION}: update repoagent"
        )
    if not version and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
        raise sqlite3.DatabaseError("it has tables of another program")
    return version
