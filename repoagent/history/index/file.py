"""The file of the index: opened if it is ours and whole, else put out of the way, said in one line."""

from __future__ import annotations

import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from repoagent.errors import Refused
from repoagent.history.index.errors import NoIndex
from repoagent.history.index.schema import APPLICATION, VERSION, connect, create, wipe
from repoagent.store import Warn, set_aside
from repoagent.store.folders import folder

# How messages begin that are about something else than the file's content.
_OUTSIDE = (
    "database is locked",
    "attempt to write",
    "disk I/O",
    "database or disk is full",
    "unable to open",
)
_BESIDE = ("-wal", "-shm", "-journal")


class Broken(Exception):
    """The file is no index that can be read."""


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """None where there is no index yet, or one that has to be made anew. Raises NoIndex for a newer one, and where it
    may not be read."""
    try:
        if not _is_there(path):
            return None
        connection = connect(path)
        try:
            if _version(connection, path) == VERSION:
                return connection
        except sqlite3.Error:
            connection.close()
            raise
        connection.close()
        return None
    except sqlite3.OperationalError as error:
        raise NoIndex(f"{path} can't be read: {error}") from error
    except (Broken, sqlite3.DatabaseError):
        return None


def open_to_write(path: Path, warn: Warn) -> sqlite3.Connection:
    """The index, made where it is missing, and made anew where it is broken, foreign or of an older version.

    The caller holds the lock. Raises NoIndex for a newer one, and where nothing may be written.
    """
    try:
        if _is_there(path):
            _check(path, warn)
        return create(path)
    except sqlite3.Error as error:
        raise NoIndex(f"{path} can't be written: {error}") from error


def put_away(path: Path, warn: Warn, why: str = "is damaged") -> None:
    """Put a broken index out of the way. The caller holds the lock."""
    with suppress(FileNotFoundError):
        kept = set_aside(path)
        warn(f"{path} {why}: it is kept as {kept.name}, and the history is mined again")
    for ending in _BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _check(path: Path, warn: Warn) -> None:
    try:
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
            version = _version(connection, path)
            if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
                raise Broken
            if 0 < version < VERSION or (version and not _same_machine(connection)):
                wipe(connection)
                warn(f"{path} is of an older repoagent: the history is mined again")
    except sqlite3.OperationalError:
        raise
    except (Broken, sqlite3.DatabaseError):
        put_away(path, warn, "is no index of repoagent's, or damaged")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Of the format; 0 for an empty file. Raises Broken for a foreign one, NoIndex for a newer one."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application not in (0, APPLICATION) or (version and application != APPLICATION):
        raise Broken
    if version > VERSION:
        raise NoIndex(
            f"{path} has format version {version} and this repoagent knows up to {VERSION}: "
            "update repoagent, or delete the file"
        )
    return version


def _same_machine(connection: sqlite3.Connection) -> bool:
    row = connection.execute("SELECT value FROM meta WHERE key = 'byteorder'").fetchone()
    return row is not None and row[0] == sys.byteorder


def _is_there(path: Path) -> bool:
    """Whether the file is there. Raises NoIndex when it, or one that SQLite keeps beside it, is a link or no file, or
    the folder is none of our own."""
    try:
        with folder(path.parent):
            pass
        for each in (path, *(path.with_name(path.name + ending) for ending in _BESIDE)):
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(each.lstat().st_mode):
                    raise NoIndex(f"{each} is not a regular file: remove it or move it away")
        return path.exists()
    except FileNotFoundError:
        return False
    except NoIndex:
        raise
    except Refused as error:
        raise NoIndex(str(error)) from error


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """What SQLite says of a damaged file becomes Broken, what it says of the disk or of other processes NoIndex."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if not str(error).startswith(_OUTSIDE):
            raise Broken(str(error)) from error
        raise NoIndex(f"{path} can't be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Broken(str(error)) from error
