"""The tables of the history index, and their values.

A commit has a number, larger for newer commits: mining counts down from BASE, updates count up from it. The key of its
row is its `age`, AGES - number, since appended rows fill their pages and inserted rows only half of them. A file keeps
one number through all of its names. `touch` has the commits that changed a file, as sorted arrays of numbers; `name`
has the file of a path, with its newest and oldest commit there; `tip` has the numbers that a commit reaches. Git's
`shallow` file, the boundary of a shallow clone, shows when older commits have been fetched.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from array import array
from pathlib import Path
from typing import Any

from repoagent.errors import UsageError
from repoagent.git.worktree import WorkTree, is_full_id
from repoagent.storage.database import DatabaseSchema, transaction


class NoCommits(UsageError):
    """The repository has no commits yet."""


BASE = 1 << 22
AGES = 1 << 23
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
NUMBERS = "i"  # type code of the arrays: four bytes, signed
MINING, WHOLE, UNREADABLE = range(3)  # how mining ended; earlier versions wrote 3 for a limit by date
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
CREATE TABLE tip (id BLOB PRIMARY KEY, ranges BLOB, floor INTEGER, covered INTEGER, used INTEGER) WITHOUT ROWID;
"""
SCHEMA = DatabaseSchema(
    int.from_bytes(b"iHpr", sys.byteorder), 1, _TABLES
)  # the arrays have the byte order of this machine


def wipe(connection: sqlite3.Connection) -> None:
    """Delete all data in one transaction; readers keep their snapshot."""
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    with transaction(connection):
        for (name,) in connection.execute(tables).fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        SCHEMA.create(connection)


def unpack_numbers(code: str, data: bytes) -> array[int]:
    """The numbers in a blob. Raises sqlite3.DatabaseError if it is damaged."""
    try:
        return array(code, data)
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"damaged number list: {error}") from error


def get_value(connection: sqlite3.Connection, key: str) -> Any:
    """A value from `meta`; None if it is missing. The value of "alive" is the hexadecimal id, in bytes, of the commit
    whose tree is recorded in `name.alive`."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def commit_id(connection: sqlite3.Connection, key: str) -> bytes | None:
    """The hexadecimal id of a commit from `meta`; None if it is missing. Raises sqlite3.DatabaseError if it is damaged:
    git could take it for an option."""
    stored = get_value(connection, key)
    if stored is not None and not (isinstance(stored, bytes) and is_full_id(stored.decode("latin-1"))):
        raise sqlite3.DatabaseError(f"damaged {key}")
    return stored


def get_integer(connection: sqlite3.Connection, key: str) -> int:
    """An integer from `meta`, 0 if it is missing."""
    return int(get_value(connection, key) or 0)


def put_value(connection: sqlite3.Connection, **values: int | str | bytes | None) -> None:
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
