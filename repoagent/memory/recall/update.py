"""Bring the index up to date: only files whose stamp is another one are read, only new passages written."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from repoagent.errors import Refused
from repoagent.llm.conversation import NewerConversation
from repoagent.memory.identity.record import load
from repoagent.memory.recall import passages
from repoagent.memory.recall.files import Glance, Stamp, Sweep, is_identity, memory_of
from repoagent.memory.recall.index import meta, packed, unpacked
from repoagent.memory.recall.passages import Passage
from repoagent.memory.recall.words import words_of
from repoagent.store import Layout, Warn, read_regular

Progress = Callable[[int, int], None]  # files read, of how many

_TICK = 50_000_000  # nanoseconds: a file may change twice within one tick of the clock and look the same
_COARSE = 2_000_000_000  # where a file system knows whole seconds only
_MANY = 2_000  # passages after which the index is merged


class Source(NamedTuple):
    """A file in the index: its number, the stamp it had, and the path of the file that its memory is about."""

    number: int
    stamp: str
    about: str


def is_unchanged(connection: sqlite3.Connection, seen: Glance) -> bool:
    """Whether no folder has changed since all files were looked at."""
    return meta(connection, "glance") == seen.mark


def looked_at(connection: sqlite3.Connection) -> float:
    """When all files were looked at last, in seconds since 1970; 0 for never."""
    value = meta(connection, "looked")
    return float(value) if isinstance(value, float | int) else 0.0


def note_look(connection: sqlite3.Connection, began: float, seen: Glance | None) -> None:
    """Write down that the index is of all files as they were at `began`, and of the folders as they were before. A
    folder that had just changed may change again and look the same: it is not believed."""
    mark = None
    if seen is not None and seen.newest + _COARSE < began * 1e9:
        mark = seen.mark
    values = [("glance", mark), ("looked", began)]
    connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)


def is_fresh(connection: sqlite3.Connection, seen: Sweep) -> bool:
    """Whether the index is of the files as they were seen."""
    return meta(connection, "mark") == seen.mark


def update(
    connection: sqlite3.Connection, layout: Layout, seen: Sweep, warn: Warn, progress: Progress | None = None
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
    connection: sqlite3.Connection, layout: Layout, seen: Sweep, how: tuple[int, Warn, Progress | None]
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
