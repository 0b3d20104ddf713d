"""The tables of the history index, and opening its file: a damaged or foreign file is renamed and reported.

A commit has a number, larger for newer commits: mining counts down from BASE, updates count up from it. The key of its
row is its `age`, AGES - number, since appended rows fill their pages and inserted rows only half of them. A file has
one number through all of its names. `touch` has the commits that changed a file, as sorted arrays of numbers; `name`
has the file of a path, with its newest and oldest commit there; `tip` has the numbers that a commit reaches. A
fingerprint of the shallow boundary, grafts and replaced commits shows when git's view of the history has changed.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from array import array
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from repoagent.errors import Refused, UsageError
from repoagent.git.process import git
from repoagent.git.worktree import WorkTree
from repoagent.storage.atomic import set_aside
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Warn


class NoIndex(Refused):
    """The index cannot be written or read; the message says why. Callers continue without it."""


class NoCommits(UsageError):
    """The repository has no commits yet."""


VERSION = 1
APPLICATION = 0x72704869  # "rpHi", in the header of the file
BASE = 1 << 22
AGES = 1 << 23
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
NUMBERS = "i"  # type code of the arrays: four bytes, signed
ENDS = (
    "mining",
    "whole",
    "unreadable",
    "date",
)  # how mining ended; the file stores the position in this tuple
_TABLES = """
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
"""


_MAKE = f"""{_TABLES}
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
INSERT INTO meta VALUES ('byteorder', '{sys.byteorder}');
"""


def create(path: Path) -> sqlite3.Connection:
    """Open the index for writing; create it, readable only by its owner, if it is missing. The caller holds the
    lock."""
    with suppress(FileExistsError):  # SQLite gives its other files the same mode
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = _prepare(sqlite3.connect(path, timeout=10, isolation_level=None))
    if connection.execute("PRAGMA user_version").fetchone() == (0,):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(f"BEGIN IMMEDIATE; {_MAKE} COMMIT;")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA cache_size = -8000")
    return connection


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing index for reading. Raises sqlite3.Error."""
    name = "".join(f"%{byte:02x}" for byte in bytes(path))  # urllib takes longer to load than the query
    return _prepare(sqlite3.connect(f"file:{name}?mode=ro", uri=True, timeout=10, isolation_level=None))


def wipe(connection: sqlite3.Connection) -> None:
    """Remove everything in one transaction; readers keep their snapshot."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    drops = "".join(f'DROP TABLE "{name}";' for (name,) in tables.fetchall())
    connection.executescript(f"BEGIN IMMEDIATE; {drops} {_MAKE} COMMIT;")


def unpacked(code: str, data: bytes) -> array[int]:
    """The numbers in a blob. Raises sqlite3.DatabaseError if it is damaged."""
    try:
        return array(code, data)
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"damaged number list: {error}") from error


def _prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA trusted_schema = OFF")  # the file may have come with a repository
    return connection


def get(connection: sqlite3.Connection, key: str, default: int = 0) -> int:
    """An integer from `meta`."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return default if row is None else int(row[0])


def get_text(connection: sqlite3.Connection, key: str) -> str | None:
    """A text from `meta`."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def alive_at(connection: sqlite3.Connection) -> bytes | None:
    """The hexadecimal id of the commit whose tree is recorded in `name.alive`."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'alive'").fetchone()
    return None if row is None else row[0]


def put(connection: sqlite3.Connection, **values: int | str | bytes | None) -> None:
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())


# Messages of SQLite that do not mean a damaged file begin with these.
_OUTSIDE = (
    "database is locked",
    "attempt to write",
    "disk I/O",
    "database or disk is full",
    "unable to open",
)
_BESIDE = ("-wal", "-shm", "-journal")


class Broken(Exception):
    """The file is damaged, or not an index."""


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """Open the index for reading; None if it is missing or must be recreated. Raises NoIndex for a newer one, and if
    reading is not permitted."""
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
        raise NoIndex(f"cannot read {path}: {error}") from error
    except (Broken, sqlite3.DatabaseError):
        return None


def open_to_write(path: Path, warn: Warn) -> sqlite3.Connection:
    """Open the index; create it if it is missing, and recreate it if it is broken, foreign or of an older version.

    The caller holds the lock. Raises NoIndex for a newer one, and if writing is not permitted.
    """
    try:
        if _is_there(path):
            _check(path, warn)
        return create(path)
    except sqlite3.Error as error:
        raise NoIndex(f"cannot write {path}: {error}") from error


def put_away(path: Path, warn: Warn, why: str = "is damaged") -> None:
    """Rename a damaged index. The caller holds the lock."""
    with suppress(FileNotFoundError):
        kept = set_aside(path)
        warn(f"{path} {why}; renamed it to {kept.name} and rebuilding the index")
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
                warn(f"{path} was written by an older repoagent; rebuilding the index")
    except sqlite3.OperationalError:
        raise
    except (Broken, sqlite3.DatabaseError):
        put_away(path, warn, "is damaged or was not created by repoagent")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The format version; 0 for an empty file. Raises Broken for a foreign file, NoIndex for a newer version."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if application not in (0, APPLICATION) or (version and application != APPLICATION):
        raise Broken
    if version > VERSION:
        raise NoIndex(
            f"{path} has format version {version}, newer than the supported {VERSION}; "
            "update repoagent or delete the file"
        )
    return version


def _same_machine(connection: sqlite3.Connection) -> bool:
    row = connection.execute("SELECT value FROM meta WHERE key = 'byteorder'").fetchone()
    return row is not None and row[0] == sys.byteorder


def _is_there(path: Path) -> bool:
    """Whether the file exists. Raises NoIndex if it or one of SQLite's files next to it is not a regular
    file, or if the folder is not ours."""
    try:
        with open_folder(path.parent):
            pass
        for each in (path, *(path.with_name(path.name + ending) for ending in _BESIDE)):
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(each.lstat().st_mode):
                    raise NoIndex(f"{each} is not a regular file; remove it")
        return path.exists()
    except FileNotFoundError:
        return False
    except NoIndex:
        raise
    except Refused as error:
        raise NoIndex(str(error)) from error


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """Turn SQLite's errors for a damaged file into Broken, those about the disk or other processes into NoIndex."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if not str(error).startswith(_OUTSIDE):
            raise Broken(str(error)) from error
        raise NoIndex(f"cannot use {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise Broken(str(error)) from error


_ENVIRONMENT = ("GIT_NO_REPLACE_OBJECTS", "GIT_REPLACE_REF_BASE")


def signature(worktree: WorkTree) -> str:
    """A fingerprint of the shallow boundary, grafts and replaced commits; no git process if nothing is replaced."""
    parts = [
        _read(shallow_file(worktree)),
        _read(_named("GIT_GRAFT_FILE", worktree.common_dir / "info/grafts")),
    ]
    if _may_replace(worktree.common_dir):
        parts.append(git(worktree.top, "for-each-ref", "--format=%(refname) %(objectname)", "refs/replace/"))
    parts += [os.fsencode(os.environ.get(name, "")) for name in _ENVIRONMENT]
    if not any(parts):
        return ""
    import hashlib  # a tenth of the time to open the index, and rarely needed

    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def shallow_edge(worktree: WorkTree) -> frozenset[bytes]:
    """The commits whose parents a shallow clone left out, as hexadecimal ids."""
    return frozenset(_read(shallow_file(worktree)).split())


def lacks_blobs(worktree: WorkTree) -> bool:
    """Whether this is a partial clone, which would fetch missing objects one by one."""
    config = _read(worktree.common_dir / "config") + _read(worktree.git_dir / "config.worktree")
    return any(word in config.lower() for word in (b"promisor", b"partialclone"))


def shallow_file(worktree: WorkTree) -> Path:
    return _named("GIT_SHALLOW_FILE", worktree.common_dir / "shallow")


def _named(variable: str, usual: Path) -> Path:
    return Path(os.environ[variable]) if variable in os.environ else usual


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _may_replace(common_dir: Path) -> bool:
    loose = common_dir / "refs" / "replace"
    if (common_dir / "reftable").is_dir() or "GIT_REPLACE_REF_BASE" in os.environ:
        return True
    if loose.is_dir() and any(loose.iterdir()):
        return True
    return b" refs/replace/" in _read(common_dir / "packed-refs")
