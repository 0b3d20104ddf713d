"""Find memories without reading all of them: `index.json`.

The index is derived: each entry carries the time and size of the identity file it was made from, and one that
does not fit is read again. So a lost, broken or stale index costs time and nothing else, and identity
files may be edited, copied or deleted by hand.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from repoagent.errors import Refused
from repoagent.memory.identity import Identity, identity_file, load
from repoagent.store import Layout, Warn, document
from repoagent.store.document import Newer

VERSION = 1


class Entry(NamedTuple):
    """What the index knows of one memory; `folder` is its name inside the memory folder."""

    folder: str
    stamp: str
    path: str
    earlier_paths: tuple[str, ...]
    keys: tuple[str, ...]
    blob: str


@dataclass(frozen=True)
class Index:
    """All memories by folder name. `writable` is False when the file is of a newer format."""

    entries: dict[str, Entry]
    writable: bool = True

    def at_path(self, path: str) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.path == path]

    def once_at(self, path: str) -> list[Entry]:
        return [entry for entry in self.entries.values() if path in entry.earlier_paths]

    def with_key(self, key: str) -> list[Entry]:
        """The memories of an inode: one, or several where another file was seen on it since."""
        return [entry for entry in self.entries.values() if key in entry.keys]


def open_index(layout: Layout, warn: Warn) -> Index:
    """The index as the identity files have it now. Nothing is written; no lock is needed.

    Identity files that are broken, newer or no regular files are reported and left out. Raises Refused when
    the memory folder is no real folder.
    """
    known, writable = _read(_file(layout), warn)
    entries: dict[str, Entry] = {}
    for name, stamp in _folders(layout.memory):
        entry = known.get(name)
        if entry is None or entry.stamp != stamp:
            entry = _fresh(layout.memory / name, stamp, warn)
        if entry is not None:
            entries[name] = entry
    return Index(entries, writable)


def updated(index: Index, layout: Layout, changed: Iterable[tuple[str, Identity]]) -> Index:
    """`index` with the identities that were just saved in the named folders."""
    entries = dict(index.entries)
    for name, identity in changed:
        stamp = _stamp(identity_file(layout.memory / name))
        if stamp is not None:
            entries[name] = _entry(name, stamp, identity)
    return Index(entries, index.writable)


def write_index(layout: Layout, index: Index) -> None:
    """Save `index`, unless it is not writable; the caller holds the lock of the memory."""
    if not index.writable:
        return
    keys = {key: entry.folder for entry in index.entries.values() for key in entry.keys}
    folders = {
        entry.folder: {
            "path": entry.path,
            "earlier_paths": entry.earlier_paths,
            "keys": entry.keys,
            "blob": entry.blob,
            "stamp": entry.stamp,
        }
        for entry in index.entries.values()
    }
    document.write(_file(layout), {"keys": keys, "folders": folders}, version=VERSION, indent=None)


def _file(layout: Layout) -> Path:
    return layout.memory / "index.json"


def _read(path: Path, warn: Warn) -> tuple[dict[str, Entry], bool]:
    try:
        value = document.read(path, version=VERSION, warn=warn)
    except Newer as error:
        warn(str(error))
        return {}, False
    except Refused:  # a link, a fifo, a folder
        document.put_aside(path, "is not a regular file", warn)
        return {}, True
    folders = (value or {}).get("folders", {})
    if not isinstance(folders, dict):
        document.put_aside(path, "does not hold what it should", warn)
        return {}, True
    entries = (_parse(name, item) for name, item in folders.items())
    return {entry.folder: entry for entry in entries if entry is not None}, True


def _parse(name: str, item: Any) -> Entry | None:
    try:
        entry = Entry(
            name, item["stamp"], item["path"], tuple(item["earlier_paths"]), tuple(item["keys"]), item["blob"]
        )
    except (KeyError, TypeError):
        return None  # made anew from the identity file
    texts = (entry.stamp, entry.path, entry.blob, *entry.earlier_paths, *entry.keys)
    return entry if all(isinstance(text, str) for text in texts) else None


def _folders(memory: Path) -> list[tuple[str, str]]:
    """The memory folders with the stamps of their identity files, by name; links and foreign folders are
    none."""
    try:
        with os.scandir(memory) as found:
            names = sorted(entry.name for entry in found if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
    top = str(memory)
    stamps = ((name, _stamp(f"{top}/{name}/identity.json")) for name in names)
    return [(name, stamp) for name, stamp in stamps if stamp is not None]


def _stamp(path: str | Path) -> str | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return f"{status.st_mtime_ns}:{status.st_ino}:{status.st_size}"


def _fresh(folder: Path, stamp: str, warn: Warn) -> Entry | None:
    try:
        identity = load(folder, warn=warn)
    except Refused as error:
        warn(str(error))
        return None
    return None if identity is None else _entry(folder.name, stamp, identity)


def _entry(name: str, stamp: str, identity: Identity) -> Entry:
    return Entry(name, stamp, identity.path, identity.earlier_paths, tuple(identity.keys), identity.blob)
