"""The tables of the index, and opening the file that holds them.

A commit has a number, and a larger number is a newer commit: mining goes back from BASE, updates go up from it. Its row
is found by its `age`, AGES - number: rows that are appended fill their pages, rows put in front of others half of them.
A file has a number through all of its names. `touch` says which commits changed a file, a sorted array of numbers for
each stretch; `name` says which file had a path, with the newest and the oldest commit that says so; `tip` which numbers
a commit reaches.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from array import array
from contextlib import suppress
from pathlib import Path

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
)  # where mining back has ended; their places stand in the file
LARGEST = 100  # files of a commit that are kept with it; a larger one is an import or a reformatting
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
    """Open the index to write, made for its owner alone where there is none. One process at a time may do it."""
    with suppress(FileExistsError):  # SQLite gives what it keeps beside it the same mode
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
    """Open an index that exists, to read. Raises sqlite3.Error."""
    name = "".join(f"%{byte:02x}" for byte in bytes(path))  # urllib takes longer to load than the query
    return _prepare(sqlite3.connect(f"file:{name}?mode=ro", uri=True, timeout=10, isolation_level=None))


def wipe(connection: sqlite3.Connection) -> None:
    """Take everything out, in one transaction: who reads goes on with what was there."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    drops = "".join(f'DROP TABLE "{name}";' for (name,) in tables.fetchall())
    connection.executescript(f"BEGIN IMMEDIATE; {drops} {_MAKE} COMMIT;")


def unpacked(code: str, data: bytes) -> array[int]:
    """The numbers of a blob. Raises sqlite3.DatabaseError for one that is damaged."""
    try:
        return array(code, data)
    except (TypeError, ValueError) as error:
        raise sqlite3.DatabaseError(f"a list of numbers is damaged: {error}") from error


def _prepare(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute(
        "PRAGMA trusted_schema = OFF"
    )  # the file may have come with somebody else's repository
    return connection


def get(connection: sqlite3.Connection, key: str, default: int = 0) -> int:
    """A whole number of `meta`."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return default if row is None else int(row[0])


def get_text(connection: sqlite3.Connection, key: str) -> str | None:
    """A text of `meta`."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def alive_at(connection: sqlite3.Connection) -> bytes | None:
    """The commit (an id in hexadecimal) whose tree is noted in `name.alive`."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'alive'").fetchone()
    return None if row is None else row[0]


def put(connection: sqlite3.Connection, **values: int | str | bytes | None) -> None:
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values.items())
