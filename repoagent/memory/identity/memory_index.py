"""Find candidate memories without reading all of them.

The identity files are authoritative. `memory.db` is derived from them and only lists the memory folders that may belong
to a path, a key or a blob. `refresh` rereads the identity files whose stamp has changed. If there are few memories, an
in-memory database is used instead.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import Refused
from repoagent.memory.identity.record import FILE, Identity, load_identity
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn

if TYPE_CHECKING:
    import sqlite3

FEW = 8  # reading this many memories takes as long as opening a database (1 ms)
PATH, EARLIER, KEY, BLOB = "path", "earlier path", "key", "blob"
Hint = tuple[str, str]  # kind and value
_COARSE = 2_000_000_000  # ns: the coarsest resolution of file times (FAT)
_TABLES = """
CREATE TABLE memory (name BLOB PRIMARY KEY, stamp TEXT, path BLOB) WITHOUT ROWID;
CREATE TABLE hint (kind TEXT, value BLOB, name BLOB, PRIMARY KEY (kind, value, name)) WITHOUT ROWID;
CREATE INDEX hint_name ON hint (name);
"""


class IdentityIndex:
    """An open index, in which a memory is identified by the name of its folder."""

    def __init__(self, connection: sqlite3.Connection, layout: Layout, warn: Warn) -> None:
        self.connection, self.layout, self.warn = connection, layout, warn
        self._loaded: dict[str, Identity | None] = {}

    def names(self, kind: str, value: str) -> list[str]:
        """The folders with this hint, sorted."""
        query = "SELECT name FROM hint WHERE kind = ? AND value = ?"
        rows = [unpack_text(row[0]) for row in self.connection.execute(query, (kind, pack_text(value)))]
        return sorted(name for name in rows if "/" not in name and not name.startswith("."))

    def identity(self, name: str) -> Identity | None:
        """The identity in this folder, read once; None, with a warning, if it is unusable."""
        if name not in self._loaded:
            self._loaded[name] = load_or_warn(self.layout.memory / name, self.warn)
        return self._loaded[name]

    def paths(self) -> list[tuple[str, str]]:
        """Return (folder, path) for each memory."""
        rows = self.connection.execute("SELECT name, path FROM memory WHERE path IS NOT NULL")
        return [(unpack_text(name), unpack_text(path)) for name, path in rows]

    def hints_of(self, name: str) -> list[Hint]:
        rows = self.connection.execute("SELECT kind, value FROM hint WHERE name = ?", (pack_text(name),))
        return [(kind, unpack_text(value)) for kind, value in rows]

    def count(self, limit: int) -> int:
        """The number of memories, at most `limit`."""
        rows = self.connection.execute("SELECT count(*) FROM (SELECT 1 FROM memory LIMIT ?)", (limit,))
        return int(rows.fetchone()[0])

    def refresh(self) -> None:
        """Read the identity files that have changed since they were last read."""
        from repoagent.storage.database import transaction

        began = time.time_ns()
        stamps: dict[str, str] = {}
        for name in memory_folders(self.layout.memory):
            try:
                status = os.lstat(f"{self.layout.memory}/{name}/{FILE}")
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                is_settled = status.st_mtime_ns + _COARSE < began  # else a later version may have this stamp
                stamp = f"{status.st_mtime_ns}:{status.st_ino}:{status.st_size}"
                stamps[name] = stamp if is_settled else ""
        rows = self.connection.execute("SELECT name, stamp FROM memory")
        known = {unpack_text(name): stamp for name, stamp in rows}
        changed = [name for name, stamp in sorted(stamps.items()) if not stamp or known.get(name) != stamp]
        identities = {name: self.identity(name) for name in changed}
        if not changed and known.keys() == stamps.keys():
            return
        with transaction(self.connection):
            for name in {*changed, *(known.keys() - stamps.keys())}:
                for table in ("hint", "memory"):
                    self.connection.execute(f"DELETE FROM {table} WHERE name = ?", (pack_text(name),))
            for name, identity in identities.items():
                if identity is not None:
                    row = (pack_text(name), stamps[name], pack_text(identity.path))
                    self.connection.execute("INSERT INTO memory VALUES (?, ?, ?)", row)
                    seen = identity.places.values()
                    hints: set[Hint] = {  # all values by which the memory can be found
                        *((PATH, path) for path in (identity.path, *(place.path for place in seen))),
                        *((EARLIER, path) for path in identity.earlier_paths),
                        *((KEY, key) for key in identity.keys),
                        *((BLOB, blob) for blob in (identity.blob, *(place.blob for place in seen)) if blob),
                    }
                    self.connection.executemany(
                        "INSERT INTO hint VALUES (?, ?, ?)",
                        [(kind, pack_text(value), pack_text(name)) for kind, value in hints],
                    )


@contextmanager
def open_index(layout: Layout, warn: Warn, *, refresh: bool = True) -> Iterator[IdentityIndex]:
    """Open the index; without `refresh`, it may be out of date.

    If `memory.db` cannot be used, warns and reads all identity files. Skips unusable identity files with a warning.
    Raises Refused if the memory folder is a link or a file.
    """
    path = layout.memory_index
    try:
        with open_folder(layout.memory):
            is_small = len(
                list(islice(memory_folders(layout.memory), FEW + 1))
            ) <= FEW and not os.path.lexists(path)
    except FileNotFoundError:
        is_small = True
    import sqlite3  # slow to load

    from repoagent.storage import database

    schema = database.DatabaseSchema(0x7270614D, 1, _TABLES)  # "rpaM"
    index: IdentityIndex | None = None
    with ExitStack() as stack:
        try:
            if not is_small:
                connection = stack.enter_context(closing(database.open_database(path, schema, warn)))
                opened = IdentityIndex(connection, layout, warn)
                with database.sqlite_errors(path):
                    some = "SELECT 1 FROM memory JOIN hint USING (name) LIMIT 1"  # shows most damage, too
                    if refresh or connection.execute(some).fetchone() is None:
                        opened.refresh()
                index = opened
        except database.DatabaseDamaged as error:
            stack.close()
            database.set_damaged_aside(path, error, warn)
        except (OSError, Refused) as error:
            warn(f"{error}; reading every memory instead, which is slower")
        if index is None:
            connection = stack.enter_context(closing(sqlite3.connect(":memory:", isolation_level=None)))
            schema.create(connection)
            index = IdentityIndex(connection, layout, warn)
            index.refresh()
        try:
            yield index
        except sqlite3.Error as raw:  # damage that opening it did not show
            reason = database.explained(path, raw)
            if isinstance(reason, database.DatabaseDamaged):
                database.set_damaged_aside(path, reason, warn)
            raise Refused(f"cannot use {path} ({raw}); run the command again") from raw


def pack_text(text: str) -> bytes:
    """Encode any text, including file names that are not UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def unpack_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def memory_folders(memory: Path) -> Iterator[str]:
    """The names of the memory folders, in any order; skips symbolic links, files, and names that begin with a dot."""
    try:
        with os.scandir(memory) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield entry.name
    except (FileNotFoundError, NotADirectoryError):
        return


def load_or_warn(folder: Path, warn: Warn) -> Identity | None:
    """The current identity in `folder`; None, with a warning, if it is unusable."""
    try:
        return load_identity(folder, warn=warn)
    except Refused as error:
        warn(str(error))
        return None
