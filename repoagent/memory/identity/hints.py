"""Find candidate memories without reading all of them.

The identity files are authoritative. Hints only list the memory folders that may belong to a path, a key or a blob: a
superfluous hint costs one small read; a missing one would make a known file look new. So hints are written before the
identity, and old ones are removed after it. If there are few memories, all are read; if there are many, the hints are
in `memory.db`, which is derived from the identity files and rebuilt if it is missing.

The database lists the names again if the memory folder's modification time has changed: a folder was added, removed or
renamed. As in git's index, a modification time as recent as the listing is not trusted. An identity edited in place is
noticed when it is read, or when the stamps of all identity files are compared (`look_again`).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.errors import Refused
from repoagent.memory.identity.record import FILE, Identity, load
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn

if TYPE_CHECKING:
    import sqlite3

FEW = 8  # reading this many memories takes as long as a query to SQLite (1 ms)
PATH, EARLIER, KEY, BLOB = "path", "earlier path", "key", "blob"
Hint = tuple[str, str]
Change = tuple[str, "Identity | None", Identity]  # folder, identity before, identity after
_COARSE = 2_000_000_000  # ns: the coarsest resolution of file times (FAT)


def hints(identity: Identity) -> set[Hint]:
    """All values by which the memory with this identity can be found."""
    paths = {identity.path, *(seen.path for seen in identity.places.values())}
    blobs = {identity.blob, *(seen.blob for seen in identity.places.values())} - {""}
    return {
        *((PATH, path) for path in paths),
        *((EARLIER, path) for path in identity.earlier_paths),
        *((KEY, key) for key in identity.keys),
        *((BLOB, blob) for blob in blobs),
    }


class IdentityIndex:
    """The hints of all memories. A folder is identified by its name inside the memory folder.

    Reads all identity files at once; used if there are few memories or if `memory.db` cannot be used.
    """

    def __init__(self, layout: Layout, warn: Warn, *, keep_file: bool = False) -> None:
        self.layout, self.warn = layout, warn
        self._keep_file = keep_file  # written by a newer repoagent, which will notice changes itself
        self._names: dict[Hint, list[str]] = {}
        self._loaded: dict[str, Identity | None] = {}
        for name in sorted(folders(layout.memory)):
            for hint in self.hints_of(name):
                self._names.setdefault(hint, []).append(name)

    def names(self, kind: str, value: str) -> list[str]:
        """The folders with this hint, sorted."""
        return self._names.get((kind, value), [])

    def identity(self, name: str) -> Identity | None:
        """The identity in this folder, read once; None, with a warning, if it is unusable."""
        if name not in self._loaded:
            self._loaded[name] = load_or_warn(self.layout.memory / name, self.warn)
        return self._loaded[name]

    def paths(self) -> list[tuple[str, str]]:
        """(folder, path) of every memory with hints."""
        return [(name, identity.path) for name, identity in self._loaded.items() if identity]

    def hints_of(self, name: str) -> Collection[Hint]:
        """All hints of this folder."""
        identity = self.identity(name)
        return hints(identity) if identity else ()

    def count(self, limit: int) -> int:
        """The number of memories, at most `limit`."""
        return min(len(self._loaded), limit)

    def look_again(self) -> bool:
        """Read identity files that have changed; return whether any hint has changed."""
        return False

    def note(self, changes: Iterable[Change]) -> None:
        """Write the hints for changed identities, before the identities are saved. The caller has locked the memory."""
        path = cache_file(self.layout)
        try:
            if not self._keep_file:
                path.unlink(missing_ok=True)  # an existing one would miss these changes
        except OSError as error:
            self.warn(f"could not remove the outdated {path} ({error.strerror}); delete it")


@contextmanager
def open_index(layout: Layout, warn: Warn) -> Iterator[IdentityIndex]:
    """Open up-to-date hints. Needs no lock and writes only `memory.db`; if it cannot be used, warns and reads all
    identity files.

    Identity files that are broken, in a newer format, or not regular files are skipped with a warning. Raises Refused
    if the memory folder is a link or a file.
    """
    path = cache_file(layout)
    try:
        with open_folder(layout.memory):
            is_small = len(list(islice(folders(layout.memory), FEW + 1))) <= FEW and not os.path.lexists(path)
    except FileNotFoundError:
        is_small = True
    if is_small:
        yield IdentityIndex(layout, warn)
        return
    import sqlite3  # slow to load

    from repoagent.storage import database

    with ExitStack() as stack:
        try:
            schema = database.Schema(0x7270614D, 1, _TABLES)  # "rpaM"
            connection = stack.enter_context(closing(database.open_database(path, schema, warn)))
            cache = CachedIndex(connection, layout, warn)
            with database.sqlite_errors(path):
                cache.refresh()
        except (database.Damaged, OSError, Refused) as error:
            stack.close()
            if isinstance(error, database.Damaged):
                database.set_damaged_aside(path, error, warn)
            else:
                warn(f"{error}; reading every memory instead, which is slower")
            yield IdentityIndex(layout, warn, keep_file=isinstance(error, database.Unusable))
            return
        try:
            yield cache
        except sqlite3.Error as raw:  # damage that the update did not touch
            reason = database.explained(path, raw)
            if isinstance(reason, database.Damaged):
                database.set_damaged_aside(path, reason, warn)
            raise Refused(f"cannot use {path} ({raw}); run the command again") from raw


_TABLES = """
CREATE TABLE listed (folder TEXT, settled INTEGER);
CREATE TABLE memory (name BLOB PRIMARY KEY, stamp TEXT, path BLOB) WITHOUT ROWID;
CREATE TABLE hint (kind TEXT, value BLOB, name BLOB, PRIMARY KEY (kind, value, name)) WITHOUT ROWID;
CREATE INDEX hint_name ON hint (name);
CREATE INDEX unborn ON memory (name) WHERE stamp IS NULL;
"""


class CachedIndex(IdentityIndex):
    """The hints in an open `memory.db`. Each change is one transaction."""

    def __init__(self, connection: sqlite3.Connection, layout: Layout, warn: Warn) -> None:
        self.connection, self.layout, self.warn = connection, layout, warn
        self._loaded = {}

    def names(self, kind: str, value: str) -> list[str]:
        rows = self._column("SELECT name FROM hint WHERE kind = ? AND value = ?", kind, packed(value))
        return sorted(name for name in rows if "/" not in name and not name.startswith("."))

    def paths(self) -> list[tuple[str, str]]:
        rows = self.connection.execute("SELECT name, path FROM memory WHERE path IS NOT NULL")
        return [(unpacked(name), unpacked(path)) for name, path in rows]

    def hints_of(self, name: str) -> Collection[Hint]:
        rows = self.connection.execute("SELECT kind, value FROM hint WHERE name = ?", (packed(name),))
        return [(kind, unpacked(value)) for kind, value in rows]

    def count(self, limit: int) -> int:
        rows = self.connection.execute("SELECT count(*) FROM (SELECT 1 FROM memory LIMIT ?)", (limit,))
        return int(rows.fetchone()[0])

    def look_again(self) -> bool:
        self._loaded.clear()
        rows = self.connection.execute("SELECT name, stamp FROM memory WHERE stamp IS NOT NULL").fetchall()
        changed = [unpacked(name) for name, old in rows if self._stamp(unpacked(name)) != old]
        before = [set(self.hints_of(name)) for name in changed]
        if changed:
            with self.connection:
                self.connection.execute("BEGIN IMMEDIATE")
                self._read(changed)
        return before != [set(self.hints_of(name)) for name in changed]

    def note(self, changes: Iterable[Change]) -> None:
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            for name, before, after in changes:
                self._put(name, "", after, hints(before) if before else set())

    def refresh(self) -> None:
        """List the names again if the memory folder has changed, and read folders that had no identity before."""
        status = self.layout.memory.stat()
        current = f"{status.st_ino}:{status.st_mtime_ns}"
        listed = self.connection.execute("SELECT folder, settled FROM listed").fetchone()
        if listed != (current, 1):
            is_settled = time.time_ns() - status.st_mtime_ns > _COARSE
            known = set(self._column("SELECT name FROM memory"))
            present = set(folders(self.layout.memory))
            if known != present or is_settled or listed is None:
                gone = [(packed(name),) for name in known - present]
                with self.connection:
                    self.connection.execute("BEGIN IMMEDIATE")
                    self.connection.executemany("DELETE FROM hint WHERE name = ?", gone)
                    self.connection.executemany("DELETE FROM memory WHERE name = ?", gone)
                    self._read(present - known)
                    self.connection.execute("DELETE FROM listed")
                    self.connection.execute("INSERT INTO listed VALUES (?, ?)", (current, int(is_settled)))
        unborn = self._column("SELECT name FROM memory WHERE stamp IS NULL")
        if born := [name for name in unborn if self._stamp(name)]:
            with self.connection:
                self.connection.execute("BEGIN IMMEDIATE")
                self._read(born)

    def _column(self, sql: str, *values: str | bytes) -> list[str]:
        return [unpacked(row[0]) for row in self.connection.execute(sql, values)]

    def _stamp(self, name: str) -> str | None:
        """A value that changes with the identity file; None if there is none."""
        try:
            status = os.lstat(f"{self.layout.memory}/{name}/{FILE}")
        except OSError:
            return None
        is_file = stat.S_ISREG(status.st_mode)
        return f"{status.st_mtime_ns}:{status.st_ino}:{status.st_size}" if is_file else None

    def _read(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            read_at = self._stamp(name)  # before reading, to notice a later change
            identity = load_or_warn(self.layout.memory / name, self.warn) if read_at else None
            self._put(name, read_at if identity else None, identity, set())

    def _put(self, name: str, read_at: str | None, identity: Identity | None, more: set[Hint]) -> None:
        key = packed(name)
        path = packed(identity.path) if identity else None
        rows = {*(hints(identity) if identity else ()), *more}
        self.connection.execute("DELETE FROM hint WHERE name = ?", (key,))
        self.connection.execute("INSERT OR REPLACE INTO memory VALUES (?, ?, ?)", (key, read_at, path))
        self.connection.executemany(
            "INSERT INTO hint VALUES (?, ?, ?)", [(kind, packed(value), key) for kind, value in rows]
        )


def packed(text: str) -> bytes:
    """Encode any text, including file names that are not UTF-8 (decoded with os.fsdecode) and lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def cache_file(layout: Layout) -> Path:
    """The path of `memory.db`, which may be missing."""
    return layout.root / "memory.db"


def folders(memory: Path) -> Iterator[str]:
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
        return load(folder, warn=warn)
    except Refused as error:
        warn(str(error))
        return None
