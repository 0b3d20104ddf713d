"""The search index, `.repoagent/recall.db`: SQLite FTS5, derived from the files, rebuilt whenever it is unusable.

`source` lists the indexed files with their stamps, `passage` their passages, `words` the tokens of each passage (split
by tokenize.py; SQLite only splits at spaces). An update reads only files whose stamp has changed and writes only new
passages. With many memories, the modification times of folders decide whether all files are checked.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.llm.conversation import NewerConversation
from repoagent.memory.identity.record import load
from repoagent.memory.search import passages
from repoagent.memory.search.passages import Passage
from repoagent.memory.search.tokenize import words_of
from repoagent.storage.atomic import read_regular, set_aside
from repoagent.storage.layout import Layout, Warn
from repoagent.storage.locks import locked

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


def open_index(path: Path) -> sqlite3.Connection:
    """The index in `path`, made where it is missing. The caller may be one of many.

    Raises Broken for one that is damaged, foreign or of an older make, NoIndex for one of a newer repoagent, and where
    nothing may be written.
    """
    with sqlite_errors(path):
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


def set_broken_aside(path: Path, warn: Warn) -> None:
    """Put what is no index out of the way; nothing is lost with it. The caller holds the lock."""
    with suppress(FileNotFoundError):
        kept = set_aside(path)
        warn(f"{path} is unusable; renamed it to {kept.name} and rebuilding it")
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
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite about the file into Broken, about the disk into NoIndex, about itself into UsageError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if str(error).startswith("no such module"):
            raise UsageError(
                "the SQLite of this Python lacks full-text search (FTS5); use another Python"
            ) from error
        if str(error).startswith(_OUTSIDE):
            raise NoIndex(f"cannot use {path} ({error})") from error
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
        raise NoIndex(f"cannot create {path} ({error.strerror})") from error


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
        raise NoIndex(f"{path} has format version {version}, newer than the supported {VERSION}")
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


_IN_MEMORY = ("identity.json", "notes.md", "edits.jsonl", "conversation.md")
_IN_FLIGHT = "edit-"  # conversations of edits that are at work: at their end they go to the memories
_ARCHIVE = "archive"  # in a memory: what had to make room
_MASK = (1 << 63) - 1


MANY = 1_500  # memories: of more only the folders are looked at


class FolderSnapshot(NamedTuple):
    """`mark` is the same as long as no folder has changed; `newest` is the time of the last change, in nanoseconds."""

    mark: bytes
    newest: int


class Stamp(NamedTuple):
    """Time of change in nanoseconds, inode, and size of a file: another text has another stamp."""

    time: int
    inode: int
    size: int


@dataclass(frozen=True)
class FileSnapshot:
    """The files that are there, by their path below the root. `mark` is the same for the same sweep."""

    seen: tuple[tuple[str, os.stat_result], ...]
    mark: bytes

    @cached_property
    def files(self) -> dict[str, Stamp]:
        """Each file with its stamp."""
        return {
            path: Stamp(one.st_mtime_ns & _MASK, one.st_ino & _MASK, one.st_size) for path, one in self.seen
        }


def snapshot_files(layout: Layout) -> FileSnapshot:
    """Look at all files that are searched. Links, and what is no regular file, are left out."""
    try:
        root = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return FileSnapshot((), b"")
    found = []
    look, regular = os.stat, stat.S_ISREG
    try:
        for path in _paths(root):
            try:
                one = look(path, dir_fd=root, follow_symlinks=False)
            except OSError:  # not there, or no longer
                continue
            if regular(one.st_mode):
                found.append((path, one))
    finally:
        os.close(root)
    hashed = blake2b("\0".join([path for path, _ in found]).encode("utf-8", "surrogatepass"), digest_size=16)
    for numbers in (
        [one.st_mtime_ns & _MASK for _, one in found],
        [one.st_ino & _MASK for _, one in found],
        [one.st_size for _, one in found],
    ):
        hashed.update(array("q", numbers).tobytes())
    return FileSnapshot(tuple(found), hashed.digest())


def snapshot_folders(layout: Layout) -> FolderSnapshot | None:
    """Look at the folders of many memories alone; None for few, whose files are looked at as quickly.

    What repoagent writes, and editors that write a new file and give it the name, change the time of the folder. What
    writes into a file in place does not.
    """
    try:
        root = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        names = _folders(root, "memory")
        if len(names) < MANY:
            return None
        memory = os.open("memory", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        try:
            look = os.stat
            times = [look(name, dir_fd=memory, follow_symlinks=False).st_mtime_ns for name in names]
        finally:
            os.close(memory)
        others = list(_beside(root))
        others += ["summaries", "summaries/files"]
        others += [f"{top}/{name}" for top in others[-2:] for name in _folders(root, top)]
        for path in others:
            try:
                one = os.stat(path, dir_fd=root, follow_symlinks=False)
            except FileNotFoundError:
                continue
            names.append(path)
            times += [one.st_mtime_ns, one.st_size]
    except OSError:  # one that is gone by now: look at all
        return None
    finally:
        os.close(root)
    hashed = blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=16)
    hashed.update(array("q", times).tobytes())
    return FolderSnapshot(hashed.digest(), max(times, default=0))


def memory_of(path: str) -> str:
    """The name of the memory folder that the file `path` is in, or that its archive is in; "" for other files."""
    parts = path.split("/")
    return parts[1] if parts[0] == "memory" and (len(parts) == 3 or is_archived(path)) else ""


def is_archived(path: str) -> bool:
    """Whether the file holds what had to make room in its memory."""
    parts = path.split("/")
    return len(parts) == 4 and parts[0] == "memory" and parts[2] == _ARCHIVE


def is_identity(path: str) -> bool:
    """Whether the file says what its memory is about."""
    return path.endswith("/identity.json") and path.count("/") == 2 and memory_of(path) != ""


def _beside(root: int) -> Iterator[str]:
    """Files that are in no memory."""
    for name in _names(root, "conversations"):
        if name.endswith(".md") and not name.startswith((_IN_FLIGHT, ".")):
            yield f"conversations/{name}"


def _paths(root: int) -> Iterator[str]:
    """Paths below the root, in an order that stays."""
    for name in _folders(root, "memory"):
        for file in _IN_MEMORY:
            yield f"memory/{name}/{file}"
        for file in _names(root, f"memory/{name}/{_ARCHIVE}"):
            if file.endswith(".md") and not file.startswith("."):
                yield f"memory/{name}/{_ARCHIVE}/{file}"
    yield from _beside(root)
    for folder, ending in (("summaries", ".json"), ("summaries/files", ".md")):
        for name in _folders(root, folder):
            if len(name) == 2:
                for file in _names(root, f"{folder}/{name}"):
                    if file.endswith(ending) and not file.startswith("."):
                        yield f"{folder}/{name}/{file}"


def _folders(root: int, path: str) -> list[str]:
    return _listed(root, path, folders=True)


def _names(root: int, path: str) -> list[str]:
    return _listed(root, path, folders=False)


def _listed(root: int, path: str, *, folders: bool) -> list[str]:
    """The names in a folder, sorted: of the folders in it, or of all else. [] for a link, or where nothing is."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        opened = os.open(path, flags, dir_fd=root)
    except OSError:
        return []
    try:
        with os.scandir(opened) as found:
            return sorted(one.name for one in found if one.is_dir(follow_symlinks=False) == folders)
    finally:
        os.close(opened)


Progress = Callable[[int, int], None]  # files read, of how many

_TICK = 50_000_000  # nanoseconds: a file may change twice within one tick of the clock and look the same
_COARSE = 2_000_000_000  # where a file system knows whole seconds only
_MANY = 2_000  # passages after which the index is merged


class Source(NamedTuple):
    """A file in the index: its number, the stamp it had, and the path of the file that its memory is about."""

    number: int
    stamp: str
    about: str


def is_unchanged(connection: sqlite3.Connection, seen: FolderSnapshot) -> bool:
    """Whether no folder has changed since all files were looked at."""
    return meta(connection, "glance") == seen.mark


def looked_at(connection: sqlite3.Connection) -> float:
    """When all files were looked at last, in seconds since 1970; 0 for never."""
    value = meta(connection, "looked")
    return float(value) if isinstance(value, float | int) else 0.0


def note_look(connection: sqlite3.Connection, began: float, seen: FolderSnapshot | None) -> None:
    """Write down that the index is of all files as they were at `began`, and of the folders as they were before. A
    folder that had just changed may change again and look the same: it is not believed."""
    mark = None
    if seen is not None and seen.newest + _COARSE < began * 1e9:
        mark = seen.mark
    values = [("glance", mark), ("looked", began)]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)


def is_fresh(connection: sqlite3.Connection, seen: FileSnapshot) -> bool:
    """Whether the index is of the files as they were seen."""
    return meta(connection, "mark") == seen.mark


def update(
    connection: sqlite3.Connection,
    layout: Layout,
    seen: FileSnapshot,
    warn: Warn,
    progress: Progress | None = None,
) -> None:
    """Make it so, in one transaction: a reader sees the index before or after, and a kill leaves the one before."""
    began = time.time_ns()
    connection.execute("BEGIN IMMEDIATE")
    try:
        _update(connection, layout, seen, (began, warn, progress))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _update(
    connection: sqlite3.Connection, layout: Layout, seen: FileSnapshot, how: tuple[int, Warn, Progress | None]
) -> None:
    began, warn, progress = how
    rows = connection.execute("SELECT path, id, stamp, about FROM source").fetchall()
    known = {unpacked(path): Source(number, stamp, unpacked(about)) for path, number, stamp, about in rows}
    for path in known.keys() - seen.files.keys():
        _forget(connection, known[path].number)
    abouts: dict[str, str] = {}
    for path in filter(is_identity, seen.files):
        same = _is_same(known.get(path), seen.files[path])
        abouts[memory_of(path)] = known[path].about if same else _about(layout, path, warn)
    stale = [
        path
        for path, stamp in seen.files.items()
        if not _is_same(known.get(path), stamp) or known[path].about != abouts.get(memory_of(path), "")
    ]
    written, certain = 0, True
    for count, path in enumerate(stale):
        if progress is not None:
            progress(count, len(stale))
        about, stamp = abouts.get(memory_of(path), ""), _told(seen.files[path], began)
        certain = certain and bool(stamp)
        values = (packed(path), stamp, packed(about))
        if path in known:
            number = known[path].number
            connection.execute(
                "UPDATE source SET (path, stamp, about) = (?, ?, ?) WHERE id = ?", (*values, number)
            )
        else:
            made = connection.execute("INSERT INTO source (path, stamp, about) VALUES (?, ?, ?)", values)
            number = made.lastrowid or 0
        written += _put(connection, number, _read(layout, path, about, warn))
    mark = seen.mark if certain else None
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('mark', ?)", (mark,))
    if written > _MANY:
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")


def _is_same(known: Source | None, stamp: Stamp) -> bool:
    return known is not None and known.stamp == _text(stamp)


def _told(stamp: Stamp, began: int) -> str:
    """The stamp as it is kept; "" for one that another text may have too, so that the file is read once more."""
    doubt = _COARSE if stamp.time % 1_000_000_000 == 0 else _TICK
    return _text(stamp) if stamp.time + doubt < began else ""


def _text(stamp: Stamp) -> str:
    return f"{stamp.time}:{stamp.inode}:{stamp.size}"


def _about(layout: Layout, path: str, warn: Warn) -> str:
    """The path of the file that the memory with this identity file is about; "" where it does not say."""
    try:
        identity = load((layout.root / path).parent, warn=warn)
    except Refused as error:
        warn(str(error))
        return ""
    return "" if identity is None else identity.path


def _read(layout: Layout, path: str, about: str, warn: Warn) -> list[Passage]:
    """The passages of a file; none of one that is gone, or may not be read, which `warn` hears."""
    if is_identity(path):
        return []
    parts = path.split("/")
    try:
        text = (read_regular(layout.root / path) or b"").decode("utf-8", "replace").removeprefix("\ufeff")
        return list(_passages(parts, text, about))
    except NewerConversation as error:
        warn(f"{layout.root / path}: {error}")
    except Refused as error:
        warn(str(error))
    return []


def _passages(parts: list[str], text: str, about: str) -> Iterable[Passage]:
    if parts[0] == "conversations":
        return passages.conversation(text, "", parts[-1].removesuffix(".md"))
    if parts[0] == "summaries":
        if parts[1] == "files":
            return passages.summary(text)
        return passages.commit(text, parts[1] + parts[2].removesuffix(".json"))
    name = "" if about else parts[1]
    if parts[-1] == "notes.md":
        found: Iterable[Passage] = passages.notes(text, about)
    elif parts[-1] == "edits.jsonl":
        found = passages.edits(text, about)
    else:
        return passages.conversation(text, about, name)
    return (one._replace(name=name) for one in found)


def _put(connection: sqlite3.Connection, source: int, found: Iterable[Passage]) -> int:
    """Make `found` the passages of the file; how many were not there before."""
    rows = connection.execute(
        "SELECT kind, file, date, line, text, title, name, blob, id FROM passage WHERE source = ?", (source,)
    )
    before: dict[Passage, list[tuple[int, int]]] = defaultdict(list)
    for kind, file, date, line, text, title, name, blob, number in rows:
        passage = Passage(kind, unpacked(file), date, 0, unpacked(text), title, unpacked(name), blob)
        before[passage].append((line, number))
    written = 0
    for passage in found:
        same = before.get(passage._replace(line=0))
        if not same:
            _insert(connection, source, passage)
            written += 1
            continue
        line, number = same.pop(0)
        if line != passage.line:
            connection.execute("UPDATE passage SET line = ? WHERE id = ?", (passage.line, number))
    _remove(connection, [number for left in before.values() for _, number in left])
    return written


def _insert(connection: sqlite3.Connection, source: int, one: Passage) -> None:
    file, name, text = packed(one.file), packed(one.name), packed(one.text)
    values = (source, one.kind, file, one.date, one.line, text, one.title, name, one.blob)
    fields = "source, kind, file, date, line, text, title, name, blob"
    number = connection.execute(
        f"INSERT INTO passage ({fields}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values
    ).lastrowid
    title, body = words_of(one.text[: one.title]), words_of(one.text[one.title :])
    path = words_of(one.file or one.name)
    columns = (title.parts, body.parts, (*title.names, *body.names), (*path.parts, *path.names))
    connection.execute(
        "INSERT INTO words (rowid, title, body, names, path) VALUES (?, ?, ?, ?, ?)",
        (number, *(" ".join(column) for column in columns)),
    )


def _forget(connection: sqlite3.Connection, source: int) -> None:
    rows = connection.execute("SELECT id FROM passage WHERE source = ?", (source,)).fetchall()
    _remove(connection, [number for (number,) in rows])
    connection.execute("DELETE FROM source WHERE id = ?", (source,))


def _remove(connection: sqlite3.Connection, numbers: list[int]) -> None:
    each = [(number,) for number in numbers]
    connection.executemany("DELETE FROM words WHERE rowid = ?", each)
    connection.executemany("DELETE FROM passage WHERE id = ?", each)


EVERY = 60.0  # seconds after which all files of many memories are looked at again
SOON = 2.0  # seconds in which nobody changes a file and asks again
_WAIT = 60.0  # seconds that another process may take to make the index
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Snapshots:
    """What was looked at before a search: the folders of many memories (`glanced`), or all files of few (`seen`).
    `patient`: where not all files were looked at for EVERY seconds, they are, before the index is asked."""

    glanced: FolderSnapshot | None
    seen: FileSnapshot | None
    patient: bool = True

    @property
    def is_empty(self) -> bool:
        return self.seen is not None and not self.seen.seen


def take_snapshots(layout: Layout, *, patient: bool = True) -> Snapshots:
    """The first look."""
    glanced = snapshot_folders(layout)
    return Snapshots(glanced, None if glanced else snapshot_files(layout), patient)


def query_index(
    layout: Layout,
    looked: Snapshots,
    ask: Callable[[sqlite3.Connection], _Found],
    warn: Warn,
    *,
    progress: Progress | None = None,
    doubts: Callable[[sqlite3.Connection], bool] = lambda connection: False,
) -> _Found:
    """What `ask` finds in an index that is up to date: the one on disk, or one that is made for this search. Where only
    the folders were looked at and the index `doubts`, all files are looked at, too."""
    path = index_file(layout)
    try:
        for _ in range(3):
            try:
                with closing(open_index(path)) as connection, sqlite_errors(path):
                    surely = _bring_up_to_date(connection, layout, looked, warn, progress)
                    if not surely and _is_due(connection, SOON) and doubts(connection):
                        _bring_up_to_date(
                            connection, layout, replace(looked, seen=snapshot_files(layout)), warn, progress
                        )
                    return ask(connection)
            except Broken:
                _mend(layout, path, warn)
        raise NoIndex(f"{path} keeps breaking")
    except Refused as error:
        warn(f"{error}; building a temporary index for this search")
    with closing(in_memory()) as connection:
        update(connection, layout, snapshot_files(layout), warn, progress)
        return ask(connection)


def catch_up(layout: Layout, warn: Warn) -> bool:
    """Look at all files of many memories if that was not done for EVERY seconds, and bring the index up to date;
    whether something had changed that the folders do not show. To be called when the answer is given. Raises Busy."""
    path = index_file(layout)
    glanced = snapshot_folders(layout)
    if glanced is None:
        return False
    try:
        with closing(open_index(path)) as connection, sqlite_errors(path):
            if not _is_due(connection, EVERY):
                return False
            seen = snapshot_files(layout)
            changed = not is_fresh(connection, seen)
            _bring_up_to_date(connection, layout, Snapshots(glanced, seen), warn, None)
            return changed
    except (Broken, Refused):  # the next search says it
        return False


def _is_due(connection: sqlite3.Connection, seconds: float) -> bool:
    return not 0 <= time.time() - looked_at(connection) < seconds


def _bring_up_to_date(
    connection: sqlite3.Connection, layout: Layout, looked: Snapshots, warn: Warn, progress: Progress | None
) -> bool:
    """Whether all files were looked at for that."""
    seen = looked.seen
    if seen is None:
        due = looked.patient and _is_due(connection, EVERY)
        if looked.glanced is not None and not due and is_unchanged(connection, looked.glanced):
            return False
        seen = snapshot_files(layout)
    began = time.time()
    if is_fresh(connection, seen):
        if looked.glanced is not None:
            note_look(connection, began, looked.glanced)
        return True
    with locked(_lock(layout), timeout=_WAIT, what="the index of the memory"):
        glanced, began = snapshot_folders(layout) if looked.glanced else None, time.time()
        seen = snapshot_files(layout)
        if not is_fresh(connection, seen):
            update(connection, layout, seen, warn, progress)
        if glanced is not None:
            note_look(connection, began, glanced if is_fresh(connection, seen) else None)
    return True


def _mend(layout: Layout, path: Path, warn: Warn) -> None:
    """Put a broken index away, unless another process has made a new one."""
    with locked(_lock(layout), timeout=_WAIT, what="the index of the memory"):
        try:
            with closing(open_index(path)) as connection, sqlite_errors(path):
                broken = connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",)
                if not broken:
                    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        except Broken:
            broken = True
        if broken:
            set_broken_aside(path, warn)


def _lock(layout: Layout) -> Path:
    return layout.root / "recall.lock"
