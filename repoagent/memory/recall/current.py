"""An index that is up to date: the one on disk, brought there; put away and made again where it is broken."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from repoagent.errors import Refused
from repoagent.memory.recall.files import Sweep, sweep
from repoagent.memory.recall.index import Broken, NoIndex, in_memory, index_file, open_index, put_away, whole
from repoagent.memory.recall.update import Progress, is_fresh, update
from repoagent.store import Layout, Warn, locked

_WAIT = 60.0  # seconds that another process may take to make the index
_Found = TypeVar("_Found")


def asked(
    layout: Layout,
    seen: Sweep,
    ask: Callable[[sqlite3.Connection], _Found],
    warn: Warn,
    progress: Progress | None,
) -> _Found:
    """What `ask` finds in an index that is up to date: the one on disk, or one that is made for this search."""
    path = index_file(layout)
    try:
        for _ in range(3):
            try:
                with closing(open_index(path)) as connection, whole(path):
                    _bring_up_to_date(connection, layout, seen, warn, progress)
                    return ask(connection)
            except Broken:
                _mend(layout, path, warn)
        raise NoIndex(f"{path} breaks again and again")
    except Refused as error:
        warn(f"{error}: the index is made for this search alone")
    with closing(in_memory()) as connection:
        update(connection, layout, sweep(layout), warn, progress)
        return ask(connection)


def _bring_up_to_date(
    connection: sqlite3.Connection, layout: Layout, seen: Sweep, warn: Warn, progress: Progress | None
) -> None:
    if is_fresh(connection, seen):
        return
    with locked(_lock(layout), timeout=_WAIT, what="the index of the memory"):
        seen = sweep(layout)
        if not is_fresh(connection, seen):
            update(connection, layout, seen, warn, progress)


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
