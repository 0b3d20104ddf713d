"""Find candidate memories without reading all of them.

The identity files are authoritative. Hints only say which memory folders may belong to a path, a key or a blob: a
superfluous hint costs one small read, a missing one would make a known file look new. So hints are written before the
identity, and old ones are kept until after it. A few memories are simply read; many have their hints in `memory.db`
(cache.py).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Protocol

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.identity.record import FILE, Identity, load
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn

FEW = 8  # to read so many (1 ms) takes as long as to ask SQLite
PATH, EARLIER, KEY, BLOB = "path", "earlier path", "key", "blob"
Hint = tuple[str, str]
Change = tuple[str, "Identity | None", Identity]  # the folder, before, after


class IdentityIndex(Protocol):
    """Hints of all memories; a folder is named by its name inside the memory folder."""

    def names(self, kind: str, value: str) -> list[str]:
        """The folders with this hint, by name."""

    def identity(self, name: str) -> Identity | None:
        """What the identity file in this folder says, read once; what can't be used is said."""

    def paths(self) -> list[tuple[str, str]]:
        """(folder, path) of every memory, as far as the hints know."""

    def hints_of(self, name: str) -> Collection[Hint]:
        """All hints of this folder."""

    def paths_from(self, beginning: str, most: int) -> list[str]:
        """At most `most` of the paths that begin like this, sorted; files of other work trees are among them."""

    def count(self, most: int) -> int:
        """How many memories there are; counting ends at `most`."""

    def look_again(self) -> bool:
        """Compare every identity file with what was read of it; whether some hint is another now."""

    def note(self, changes: Iterable[Change]) -> None:
        """Write down the hints of (folder, before, after), before `after` is saved. The caller holds the lock."""


def hints(identity: Identity) -> set[Hint]:
    paths = {identity.path, *(seen.path for seen in identity.places.values())}
    blobs = {identity.blob, *(seen.blob for seen in identity.places.values())} - {""}
    return {
        *((PATH, path) for path in paths),
        *((EARLIER, path) for path in identity.earlier_paths),
        *((KEY, key) for key in identity.keys),
        *((BLOB, blob) for blob in blobs),
    }


@contextmanager
def open_index(layout: Layout, warn: Warn) -> Iterator[IdentityIndex]:
    """The hints as the identity files have them now. No lock is needed; nothing but `memory.db` is written.

    Identity files that are broken, newer or no regular files are reported and left out. Raises Refused when the memory
    folder is no real folder.
    """
    try:
        with open_folder(layout.memory):
            pass
    except FileNotFoundError:
        yield DirectIndex(layout, warn)
        return
    if not os.path.lexists(cache_file(layout)) and len(list(islice(folders(layout.memory), FEW + 1))) <= FEW:
        yield DirectIndex(
            layout, warn
        )  # counting asks for many names at once, and takes longer than a look at one file
        return
    from repoagent.memory.identity.cache import open_cache  # SQLite takes a while to load

    with open_cache(layout, warn) as cache:
        yield DirectIndex(layout, warn) if cache is None else cache


@dataclass
class DirectIndex:
    """All identity files, read now: for few memories, and where `memory.db` can't be used."""

    layout: Layout
    warn: Warn
    newer: bool = False  # the file is of a newer repoagent, which has to see for itself what has changed
    _names: dict[Hint, list[str]] = field(init=False)
    _identities: dict[str, Identity] = field(init=False)

    def __post_init__(self) -> None:
        self._names, self._identities = {}, {}
        for name in sorted(folders(self.layout.memory)):
            identity = load_or_warn(self.layout.memory / name, self.warn)
            if identity is not None:
                self._identities[name] = identity
                for hint in hints(identity):
                    self._names.setdefault(hint, []).append(name)

    def names(self, kind: str, value: str) -> list[str]:
        return self._names.get((kind, value), [])

    def identity(self, name: str) -> Identity | None:
        return self._identities.get(name)

    def paths(self) -> list[tuple[str, str]]:
        return [(name, identity.path) for name, identity in self._identities.items()]

    def hints_of(self, name: str) -> Collection[Hint]:
        return hints(self._identities[name]) if name in self._identities else ()

    def paths_from(self, beginning: str, most: int) -> list[str]:
        found = (value for kind, value in self._names if kind == PATH and value.startswith(beginning))
        return sorted(found)[:most]

    def count(self, most: int) -> int:
        return min(len(self._identities), most)

    def look_again(self) -> bool:
        return False

    def note(self, changes: Iterable[Change]) -> None:
        """The file of many memories, left from before, would not hear of these changes."""
        path = cache_file(self.layout)
        try:
            if not self.newer:
                path.unlink(missing_ok=True)
        except OSError as error:  # what it does not know shows when it is compared with the identity files
            self.warn(f"could not remove the outdated {path} ({error.strerror}); delete it")


def cache_file(layout: Layout) -> Path:
    return layout.root / "memory.db"


def folders(memory: Path) -> Iterator[str]:
    """The names of the memory folders, in no order; links, files and what begins with a dot are none."""
    try:
        with os.scandir(memory) as found:
            for entry in found:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield entry.name
    except (FileNotFoundError, NotADirectoryError):
        return


def load_or_warn(place: Path, warn: Warn) -> Identity | None:
    """The identity in the folder `place` as it is now; what can't be used is said."""
    try:
        return load(place, warn=warn)
    except Refused as error:
        warn(str(error))
        return None


def stamp(memory: str, name: str) -> str | None:
    """What changes with an identity file; None for none."""
    try:
        status = os.lstat(f"{memory}/{name}/{FILE}")
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return f"{status.st_mtime_ns}:{status.st_ino}:{status.st_size}"
