"""The tables of the history index, and opening its file: a damaged or foreign file is renamed and reported.

A commit has a number, larger for newer commits: mining counts down from BASE, updates count up from it. The key of its
row is its `age`, AGES - number, since appended rows fill their pages and inserted rows only half of them. A file keeps
one number through all of its names. `touch` has the commits that changed a file, as sorted arrays of numbers; `name`
has the file of a path, with its newest and oldest commit there; `tip` has the numbers that a commit reaches. Git's
`shallow` file, the boundary of a shallow clone, shows when older commits have been fetched.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from repoagent.errors import Refused, UsageError
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.storage.atomic import set_aside
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Warn


class NoIndex(Refused):
    """The index cannot be written or read; the message says why. Callers continue without it."""


class NoCommits(UsageError):
    """The repository has no commits yet."""


class Broken(Exception):
    """The file is damaged, or not an index."""


VERSION = 1
APPLICATION = 0x72704869  # "rpHi", in the header of the file
BASE = 1 << 22
AGES = 1 << 23
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
NUMBERS = "i"  # type code of the arrays: four bytes, signed
MINING, WHOLE, UNREADABLE = range(3)  # how mining ended; earlier versions wrote 3 for a limit by date
_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE commit_ (age INTEGER PRIMARY KEY, time INTEGER, author INTEGER, size INTEGER, files BLOB, id BLOB);
CREATE TABLE touch (file INTEGER, low INTEGER, numbers BLOB, PRIMARY KEY (file, low)) WITHOUT ROWID;
CREATE TABLE directory (id INTEGER PRIMARY KEY, path BLOB UNIQUE);
CREATE TABLE name (
  directory INTEGER, base BLOB, file INTEGER, stem INTEGER, alive INTEGER DEFAULT 0,
  high INTEGER, high_kind INTEGER, low INTEGER, low_kind INTEGER, PRIMARY KEY (directory, base, file)
) WITHOUT ROWID;
CREATE INDEX name_file ON name (file, alive, high);
CREATE INDEX name_stem ON name (stem);
CREATE TABLE author (id INTEGER PRIMARY KEY, text BLOB UNIQUE);
CREATE TABLE copy (file INTEGER, number INTEGER, origin INTEGER, PRIMARY KEY (file, number)) WITHOUT ROWID;
CREATE TABLE tip (id BLOB PRIMARY KEY, ranges BLOB, floor INTEGER, covered INTEGER, used INTEGER) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
INSERT INTO meta VALUES ('byteorder', '{sys.byteorder}');
"""
# Messages of SQLite that do not mean a damaged file begin with these.
_OUTSIDE = (
    "database is locked",
    "attempt to write",
    "disk I/O",
    "database or disk is full",
    "unable to open",
)
_OBJECTS = "SELECT count(*) FROM sqlite_schema"
_PROGRAMS = " WHERE type IN ('trigger', 'view')"  # we create none, and those of others need not end
_SQLITE_FILES = ("-wal", "-shm", "-journal")


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Open the index for reading; None if it is missing or must be recreated. Raises NoIndex for a newer format, and if
    reading is not permitted."""
    if not _exists(path):
        return None
    name = "".join(f"%{byte:02x}" for byte in bytes(path))  # urllib takes longer to load than the query
    with ExitStack() as stack, suppress(Broken), errors_of(path):
        connection = stack.enter_context(closing(_connect(f"file:{name}?mode=ro", uri=True)))
        if _version(connection, path):
            stack.pop_all()  # it stays open
            return connection
    return None


def open_to_write(path: Path, warn: Warn) -> sqlite3.Connection:
    """Open the index; create it, readable only by its owner, if it is missing, and recreate it if it is broken or
    foreign.

    The caller holds the lock. Raises NoIndex for a newer format, and if writing is not permitted.
    """
    try:
        if _exists(path):
            try:
                with errors_of(path), closing(_connect(str(path))) as connection:
                    _version(connection, path)
            except Broken:
                rename_damaged(path, warn, "is damaged or was not created by repoagent")
        with suppress(FileExistsError):  # SQLite gives its other files the same mode
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with ExitStack() as stack:
            connection = stack.enter_context(closing(_connect(str(path))))
            if connection.execute("PRAGMA user_version").fetchone() == (0,):
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            connection.execute("PRAGMA cache_size = -8000")
            stack.pop_all()  # it stays open
        return connection
    except sqlite3.Error as error:
        raise NoIndex(f"cannot write {path}: {error}") from error


def rename_damaged(path: Path, warn: Warn, why: str = "is damaged") -> None:
    """Rename a damaged index. The caller holds the lock."""
    with suppress(FileNotFoundError):
        renamed = set_aside(path)
        warn(f"{path} {why}; it was renamed to {renamed.name}, and the index is being rebuilt")
    for ending in _SQLITE_FILES:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def wipe(connection: sqlite3.Connection) -> None:
    """Delete all data in one transaction; readers keep their snapshot."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    drops = "".join(f'DROP TABLE "{name}";' for (name,) in tables.fetchall())
    connection.executescript(f"BEGIN IMMEDIATE; {drops} {_TABLES} COMMIT;")


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(name, uri=uri, timeout=10, isolation_level=None)
    connection.execute("PRAGMA trusted_schema = OFF")  # the file may have come with a repository
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The format version; 0 for an empty file. Raises Broken for a foreign file, NoIndex for a newer version."""
    application, version, tables, programs = (
        int(connection.execute(query).fetchone()[0])
        for query in ("PRAGMA application_id", "PRAGMA user_version", _OBJECTS, _OBJECTS + _PROGRAMS)
    )
    if not (application or version or tables):
        return 0
    if application == APPLICATION and version > VERSION:
        raise NoIndex(
            f"{path} has format version {version}, newer than the supported {VERSION}; "
            "update repoagent or delete the file"
        )
    if (
        programs
        or (application, version) != (APPLICATION, VERSION)
        or value(connection, "byteorder") != sys.byteorder
    ):
        raise Broken(f"{path} is not an index")
    return version


def _exists(path: Path) -> bool:
    """Whether the file exists. Raises NoIndex if it or one of SQLite's files next to it is not a regular
    file, or if the folder is not ours."""
    try:
        with open_folder(path.parent):
            pass
        for each in (path, *(path.with_name(path.name + ending) for ending in _SQLITE_FILES)):
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(each.lstat().st_mode):
                    raise NoIndex(f"{each} is not a regular file; remove it")
        return path.exists()
    except FileNotFoundError:
        return False
    except Refused as error:
        raise NoIndex(str(error)) from error


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Turn SQLite's errors for a damaged file into Broken, and those about the disk or other processes into NoIndex."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if not str(error).startswith(_OUTSIDE):
            raise Broken(str(error)) from error
        raise NoIndex(f"cannot use {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Broken(str(error)) from error


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


def unpacked(code: str, data: bytes) -> array[int]:
    """The numbers in a blob. Raises sqlite3.DatabaseError if it is damaged."""
    try:
        return array(code, data)
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"damaged number list: {error}") from error


def value(connection: sqlite3.Connection, key: str) -> Any:
    """A value from `meta`; None if it is missing. The value of "alive" is the hexadecimal id, in bytes, of the commit
    whose tree is recorded in `name.alive`."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def commit_id(connection: sqlite3.Connection, key: str) -> bytes | None:
    """The hexadecimal id of a commit from `meta`; None if it is missing. Raises sqlite3.DatabaseError if it is damaged:
    git could take it for an option."""
    stored = value(connection, key)
    if stored is not None and not (isinstance(stored, bytes) and is_full_id(stored.decode("latin-1"))):
        raise sqlite3.DatabaseError(f"damaged {key}")
    return stored


def get(connection: sqlite3.Connection, key: str) -> int:
    """An integer from `meta`, 0 if it is missing."""
    return int(value(connection, key) or 0)


def put(connection: sqlite3.Connection, **values: int | str | bytes | None) -> None:
    """Write values into `meta`, replacing those that exist."""
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


def signature(worktree: WorkTree) -> str:
    """A fingerprint of a shallow clone's boundary; "" for a complete clone."""
    edge = shallow_edge(worktree)
    if not edge:
        return ""
    import hashlib  # a tenth of the time to open the index, and rarely needed

    return hashlib.sha256(edge).hexdigest()


def shallow_edge(worktree: WorkTree) -> bytes:
    """The commits whose parents are missing from a shallow clone, as hexadecimal ids, one per line."""
    return _read(Path(os.environ.get("GIT_SHALLOW_FILE") or worktree.common_dir / "shallow"))


def lacks_blobs(worktree: WorkTree) -> bool:
    """Whether this is a partial clone, which would fetch missing objects one by one."""
    config = _read(worktree.common_dir / "config") + _read(worktree.git_dir / "config.worktree")
    return any(word in config.lower() for word in (b"promisor", b"partialclone"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
