"""The index, `.repoagent/recall.db`: derived from the files, so it is made again whenever it can't be used.

`source` are the files that were read, with the stamp that they had; `passage` what is in them; `words` the same as the
words that are searched, one row for each passage. Words are ours already (words.py): SQLite only splits at spaces.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from repoagent.errors import Refused
from repoagent.store import Layout, Warn, set_aside

VERSION = 1
APPLICATION = 0x72705263  # "rpRc", in the header of the file
# Whoever runs another Unicode would split some words otherwise; a stamp is read as numbers of this machine.
_MADE_BY = f"{VERSION}.1 {unicodedata.unidata_version} {sys.byteorder}"
_BESIDE = ("-wal", "-shm", "-journal")
_OUTSIDE = ("database is locked", "attempt to write", "disk I/O", "database or disk", "unable to open")
_MAKE = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE source (id INTEGER PRIMARY KEY, path BLOB UNIQUE, stamp TEXT, about BLOB);
CREATE TABLE passage (
  id INTEGER PRIMARY KEY, source INTEGER, kind TEXT, file BLOB, date TEXT, line INTEGER, text BLOB, title INTEGER,
  name BLOB, blob TEXT
);
CREATE INDEX passage_source ON passage (source);
CREATE INDEX passage_file ON passage (file);
CREATE VIRTUAL TABLE words USING fts5 (title, body, names, path, tokenize = 'ascii');
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
INSERT INTO meta VALUES ('made by', '{_MADE_BY}');
"""


class Broken(Exception):
    """The file is no index that can be used, and may be made anew."""


class NoIndex(Refused):
    """No index can be kept here; what is searched has to be read each time."""


def index_file(layout: Layout) -> Path:
    return layout.root / "recall.db"


@lru_cache(maxsize=1)
def has_fts5() -> bool:
    """Whether the SQLite of this Python can search texts."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE one USING fts5 (text)")
        except sqlite3.OperationalError:
            return False
    return True


def open_index(path: Path) -> sqlite3.Connection:
    """The index in `path`, made where it is missing. The caller may be one of many.

    Raises Broken for one that is damaged, foreign or of an older make, NoIndex for one of a newer repoagent, and where
    nothing may be written.
    """
    with whole(path):
        _look(path)
        _make_private(path)
        connection = sqlite3.connect(path, timeout=20, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def in_memory() -> sqlite3.Connection:
    """An index that is kept nowhere."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(_MAKE)
    return connection


def put_away(path: Path, warn: Warn) -> None:
    """Put what is no index out of the way; nothing is lost with it. The caller holds the lock."""
    with suppress(FileNotFoundError):
        kept = set_aside(path)
        warn(f"{path} is no index that can be used: it is kept as {kept.name}, and made again from the files")
    for ending in _BESIDE:
        path.with_name(path.name + ending).unlink(missing_ok=True)


def wipe(connection: sqlite3.Connection) -> None:
    """Take everything out and make the tables anew, in one transaction."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'words_%'"
    ).fetchall()
    drops = "".join(f'DROP TABLE "{name}";' for (name,) in tables)
    connection.executescript(f"BEGIN IMMEDIATE; {drops} {_MAKE} COMMIT;")


@contextmanager
def whole(path: Path) -> Iterator[None]:
    """What SQLite says of the file becomes Broken, what it says of the disk NoIndex."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error).startswith(_OUTSIDE):
            raise NoIndex(f"{path} can't be used ({error})") from error
        raise Broken(str(error)) from error
    except sqlite3.Error as error:
        raise Broken(str(error)) from error


def _look(path: Path) -> None:
    for each in (path, *(path.with_name(path.name + ending) for ending in _BESIDE)):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(each.lstat().st_mode):
                raise NoIndex(f"{each} is not a regular file")


def _make_private(path: Path) -> None:
    """Make the file for its owner alone; SQLite gives what it keeps beside it the same mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise NoIndex(f"{path} can't be made ({error.strerror})") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(
        "PRAGMA trusted_schema = OFF"
    )  # the file may have come with somebody else's repository
    connection.execute("BEGIN")  # what is asked is of one moment: another process may be making the file
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    connection.execute("COMMIT")
    if application == 0 and version == 0:
        if tables:
            raise Broken("foreign")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        made = connection.execute("PRAGMA user_version").fetchone()[0]
        connection.execute("ROLLBACK")
        if not made:
            wipe(connection)
    elif application != APPLICATION:
        raise Broken("foreign")
    elif version > VERSION:
        raise NoIndex(f"{path} has format version {version} and this repoagent knows up to {VERSION}")
    elif meta(connection, "made by") != _MADE_BY:
        wipe(connection)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -16000")


def meta(connection: sqlite3.Connection, key: str) -> object:
    """A value of `meta`, None for none."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def packed(text: str) -> bytes:
    """A text as it stands in the index: names may hold bytes that are no UTF-8, as surrogates."""
    return text.encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
