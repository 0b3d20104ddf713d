"""The search index, `.repoagent/recall.db`: SQLite FTS5, derived from the files and rebuilt if it is unusable.

`source` lists the indexed files with their stamps, `passage` their passages, `words` the tokens of each passage (split
by tokenize.py; SQLite only splits at spaces). An update reads only files whose stamp has changed.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from repoagent.errors import Refused
from repoagent.llm.conversation import NewerConversation
from repoagent.memory.identity.memory_index import load_or_warn, pack_text, unpack_text
from repoagent.memory.search import passages
from repoagent.memory.search.passages import Passage, words_of
from repoagent.storage import database
from repoagent.storage.atomic import read_regular
from repoagent.storage.layout import Layout, Warn
from repoagent.storage.locks import hold_lock

_TABLES = """
CREATE TABLE source (id INTEGER PRIMARY KEY, path BLOB UNIQUE, stamp TEXT, about BLOB);
CREATE TABLE passage (
  id INTEGER PRIMARY KEY, source INTEGER, kind TEXT, file BLOB, date TEXT, line INTEGER, text BLOB, title INTEGER,
  name BLOB, blob TEXT
);
CREATE INDEX passage_source ON passage (source);
CREATE INDEX passage_file ON passage (file);
CREATE VIRTUAL TABLE words USING fts5 (title, body, names, path, tokenize = 'ascii');
"""
SCHEMA = database.DatabaseSchema(0x72705263, 2, _TABLES)  # "rpRc"
_TICK = 50_000_000  # nanoseconds: a file that changes twice within one tick of the clock has the same stamp
_COARSE = 2_000_000_000  # the same if a file system stores only whole seconds
_MANY = 2_000  # new passages after which the index is merged
_WAIT = 60.0  # seconds to wait for another process that builds the index
_FOLDERS = ("memory", "conversations", "summaries")
_SEARCHED = re.compile(
    r"memory/[^/]+/(identity\.json|notes\.md|edits\.jsonl|conversation\.md|archive/[^/.][^/]*\.md)"
    r"|conversations/(?!edit-)[^/.][^/]*\.md"
    r"|summaries/([^/]{2}/[^/.][^/]*\.json|files/[^/]{2}/[^/.][^/]*\.md)"
)
Files = dict[str, tuple[int, int, int]]  # time in ns, inode and size, by path below the root
Progress = Callable[[int, int], None]  # number of files read, number of files
_Result = TypeVar("_Result")


def open_index(path: Path, warn: Warn) -> sqlite3.Connection:
    """Open the index in `path`, and create it if it is missing. Raises what `open_database` raises."""
    connection = database.open_database(path, SCHEMA, warn, wal=True)
    try:
        with database.sqlite_errors(path):
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA cache_size = -16000")
    except BaseException:
        connection.close()
        raise
    return connection


def in_memory() -> sqlite3.Connection:
    """An index that is not stored."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with database.sqlite_errors(Path(":memory:")):
        SCHEMA.create(connection)
    return connection


def snapshot_files(layout: Layout) -> Files:
    """Stat all regular files that are to be searched.

    Conversations of running edits are left out: they end up in memories.
    """
    files: Files = {}
    root = str(layout.root)
    for folder, inner, names in os.walk(root) if not layout.root.is_symlink() else ():
        below = folder[len(root) + 1 :]
        inner[:] = sorted(name for name in inner if not name.startswith(".") and (below or name in _FOLDERS))
        for path in (f"{below}/{name}" for name in sorted(names)):
            if _SEARCHED.fullmatch(path):
                with suppress(OSError):  # just deleted
                    status = os.lstat(f"{root}/{path}")
                    if stat.S_ISREG(status.st_mode):
                        files[path] = (status.st_mtime_ns, status.st_ino, status.st_size)
    return files


def memory_of(path: str) -> str:
    """The name of the memory folder that contains `path`, including its archive; "" for other files."""
    parts = path.split("/")
    return parts[1] if parts[0] == "memory" and (len(parts) == 3 or is_archived(path)) else ""


def is_archived(path: str) -> bool:
    """Whether the file is in a memory's archive."""
    parts = path.split("/")
    return len(parts) == 4 and parts[0] == "memory" and parts[2] == "archive"


def _is_identity(path: str) -> bool:
    return path.endswith("/identity.json") and path.count("/") == 2 and memory_of(path) != ""


def _stamps(seen: Files) -> dict[str, str]:
    return {path: ":".join(map(str, numbers)) for path, numbers in seen.items()}


def _is_current(connection: sqlite3.Connection, seen: Files) -> bool:
    rows = connection.execute("SELECT path, stamp FROM source")
    return {unpack_text(path): stamp for path, stamp in rows} == _stamps(seen)


def update(
    connection: sqlite3.Connection, layout: Layout, seen: Files, warn: Warn, progress: Progress | None = None
) -> None:
    """Update the index in one transaction, so that readers see it either as before or as
    after the update."""
    with database.transaction(connection):
        began = time.time_ns()
        known: dict[str, tuple[int, str, str]] = {}  # row, stamp, and the file that the memory is about
        for path, number, stamp, about in connection.execute("SELECT path, id, stamp, about FROM source"):
            known[unpack_text(path)] = number, stamp, unpack_text(about)
        stamps = _stamps(seen)
        same = {path for path, stamp in stamps.items() if path in known and known[path][1] == stamp}
        abouts: dict[str, str] = {}
        for path in filter(_is_identity, stamps):
            identity = None if path in same else load_or_warn((layout.root / path).parent, warn)
            abouts[memory_of(path)] = known[path][2] if path in same else identity.path if identity else ""
        stale = [
            path for path in stamps if path not in same or known[path][2] != abouts.get(memory_of(path), "")
        ]
        for path in known.keys() - (stamps.keys() - set(stale)):
            number = known[path][0]
            for table, column in (("words", "rowid"), ("passage", "id")):
                ids = "SELECT id FROM passage WHERE source = ?"
                connection.execute(f"DELETE FROM {table} WHERE {column} IN ({ids})", (number,))
            connection.execute("DELETE FROM source WHERE id = ?", (number,))
        written = 0
        for count, path in enumerate(stale):
            if progress is not None:
                progress(count, len(stale))
            changed, about = seen[path][0], abouts.get(memory_of(path), "")
            doubt = _COARSE if changed % 1_000_000_000 == 0 else _TICK
            is_settled = changed + doubt < began  # else a later version may have this stamp: read it again
            values = (pack_text(path), stamps[path] if is_settled else "", pack_text(about))
            cursor = connection.execute("INSERT INTO source (path, stamp, about) VALUES (?, ?, ?)", values)
            number = cursor.lastrowid or 0
            for passage in _read(layout, path, about, warn):
                _insert(connection, number, passage)
                written += 1
        if written > _MANY:
            connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def _read(layout: Layout, path: str, about: str, warn: Warn) -> list[Passage]:
    """The passages of a file; none if it is missing, or, with a warning, if it cannot be read."""
    if _is_identity(path):
        return []
    try:
        text = (read_regular(layout.root / path) or b"").decode("utf-8", "replace").removeprefix("\ufeff")
        return list(passages.of_file(path, text, about))
    except NewerConversation as error:
        warn(f"{layout.root / path}: {error}")
    except Refused as error:
        warn(str(error))
    return []


def passage_of(row: Sequence[Any]) -> Passage:
    """The passage in the columns kind, file, date, line, text, title, name and blob of a row."""
    kind, file, date, line, text, title, name, blob = row
    return Passage(kind, unpack_text(file), date, line, unpack_text(text), title, unpack_text(name), blob)


def _insert(connection: sqlite3.Connection, source: int, passage: Passage) -> None:
    kind, file, date, line, text, heading, name, blob = passage
    number = connection.execute(
        "INSERT INTO passage (source, kind, file, date, line, text, title, name, blob) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (source, kind, pack_text(file), date, line, pack_text(text), heading, pack_text(name), blob),
    ).lastrowid
    title, body, path = words_of(text[:heading]), words_of(text[heading:]), words_of(file or name)
    columns = (title.parts, body.parts, (*title.names, *body.names), (*path.parts, *path.names))
    connection.execute(
        "INSERT INTO words (rowid, title, body, names, path) VALUES (?, ?, ?, ?, ?)",
        (number, *(" ".join(column) for column in columns)),
    )


def query_index(
    layout: Layout,
    seen: Files,
    query: Callable[[sqlite3.Connection], _Result],
    warn: Warn,
    progress: Progress | None = None,
) -> _Result:
    """Run `query` on an up-to-date index, which is temporary if `recall.db` is damaged or cannot be used.

    Raises Busy if another process keeps the index locked for more than a minute.
    """
    path, lock = layout.recall, layout.root / "recall.lock"
    try:
        with closing(open_index(path, warn)) as connection, database.sqlite_errors(path):
            if not _is_current(connection, seen):
                with hold_lock(lock, timeout=_WAIT, label="the search index"):
                    seen = snapshot_files(layout)
                    if not _is_current(connection, seen):
                        update(connection, layout, seen, warn, progress)
            return query(connection)
    except database.DatabaseDamaged as error:
        try:
            database.set_damaged_aside(path, error, warn)
        except Refused as refusal:
            warn(f"{refusal}; building a temporary index for this search")
    except Refused as error:
        warn(f"{error}; building a temporary index for this search")
    with closing(in_memory()) as connection:
        update(connection, layout, snapshot_files(layout), warn, progress)
        return query(connection)
