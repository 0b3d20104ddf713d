"""An index that is up to date: the one on disk, brought there; put away and made again where it is broken."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.recall.files import Glance, Sweep, glance, sweep
from repoagent.memory.recall.index import Broken, NoIndex, in_memory, index_file, open_index, put_away, whole
from repoagent.memory.recall.update import Progress, is_fresh, is_unchanged, looked_at, note_look, update
from repoagent.store import Layout, Warn, locked

EVERY = 60.0  # seconds after which all files of many memories are looked at again
SOON = 2.0  # seconds in which nobody changes a file and asks again
_WAIT = 60.0  # seconds that another process may take to make the index
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Look:
    """What was looked at before a search: the folders of many memories (`glanced`), or all files of few (`seen`).
    `patient`: where not all files were looked at for EVERY seconds, they are, before the index is asked."""

    glanced: Glance | None
    seen: Sweep | None
    patient: bool = True

    @property
    def is_empty(self) -> bool:
        return self.seen is not None and not self.seen.seen


def look(layout: Layout, *, patient: bool = True) -> Look:
    """The first look."""
    glanced = glance(layout)
    return Look(glanced, None if glanced else sweep(layout), patient)


def asked(
    layout: Layout,
    looked: Look,
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
                with closing(open_index(path)) as connection, whole(path):
                    surely = _bring_up_to_date(connection, layout, looked, warn, progress)
                    if not surely and _is_due(connection, SOON) and doubts(connection):
                        _bring_up_to_date(
                            connection, layout, replace(looked, seen=sweep(layout)), warn, progress
                        )
                    return ask(connection)
            except Broken:
                _mend(layout, path, warn)
        raise NoIndex(f"{path} breaks again and again")
    except Refused as error:
        warn(f"{error}: the index is made for this search alone")
    with closing(in_memory()) as connection:
        update(connection, layout, sweep(layout), warn, progress)
        return ask(connection)


def catch_up(layout: Layout, warn: Warn) -> bool:
    """Look at all files of many memories if that was not done for EVERY seconds, and bring the index up to date;
    whether something had changed that the folders do not show. To be called when the answer is given. Raises Busy."""
    path = index_file(layout)
    glanced = glance(layout)
    if glanced is None:
        return False
    try:
        with closing(open_index(path)) as connection, whole(path):
            if not _is_due(connection, EVERY):
                return False
            seen = sweep(layout)
            changed = not is_fresh(connection, seen)
            _bring_up_to_date(connection, layout, Look(glanced, seen), warn, None)
            return changed
    except (Broken, Refused):  # the next search says it
        return False


def _is_due(connection: sqlite3.Connection, seconds: float) -> bool:
    return not 0 <= time.time() - looked_at(connection) < seconds


def _bring_up_to_date(
    connection: sqlite3.Connection, layout: Layout, looked: Look, warn: Warn, progress: Progress | None
) -> bool:
    """Whether all files were looked at for that."""
    seen = looked.seen
    if seen is None:
        due = looked.patient and _is_due(connection, EVERY)
        if looked.glanced is not None and not due and is_unchanged(connection, looked.glanced):
            return False
        seen = sweep(layout)
    began = time.time()
    if is_fresh(connection, seen):
        if looked.glanced is not None:
            note_look(connection, began, looked.glanced)
        return True
    with locked(_lock(layout), timeout=_WAIT, what="the index of the memory"):
        glanced, began = glance(layout) if looked.glanced else None, time.time()
        seen = sweep(layout)
        if not is_fresh(connection, seen):
            update(connection, layout, seen, warn, progress)
        if glanced is not None:
            note_look(connection, began, glanced if is_fresh(connection, seen) else None)
    return True


def _mend(layout: Layout, path: Path, warn: Warn) -> None:
    """Put a broken index away, unless another process has made a new one."""
    with locked(_lock(layout), timeout=_WAIT, what="the index of the memory"):
        try:
            with closing(open_index(path)) as connection, whole(path):
                broken = connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",)
                if not broken:
                    connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        except Broken:
            broken = True
        if broken:
            put_away(path, warn)


def _lock(layout: Layout) -> Path:
    return layout.root / "recall.lock"
