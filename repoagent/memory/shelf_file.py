"""The file `memory.db`: opened, made where it is missing, told from what is not ours."""

from __future__ import annotations

import os
import sqlite3
import stat
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
    ready = _is_ready(path, warn)
    connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # it may have come with somebody else's repository
        if not ready and _version(connection) == 0:
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) == 0:
                for statement in _MAKE.split(";"):
                    connection.execute(statement)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ready(path: Path, warn: Warn) -> bool:
    """Whether the file, made where it is missing, has the marks of ours in its header (offsets 60 and 68). What is no
    regular file is put aside."""
    journal = path.with_name(path.name + "-journal")
    for each in (path, journal):
        try:
            mode = os.lstat(each).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            put_aside(each, "is not a regular file", warn)
    descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        header = os.read(descriptor, 72)
    finally:
        os.close(descriptor)
    marks = [int.from_bytes(header[at : at + 4], "big") for at in (60, 68)]
    return header.startswith(b"SQLite format 3\0") and marks == [VERSION, APPLICATION]


def _version(connection: sqlite3.Connection) -> int:
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
