"""Find candidate memories without reading all of them.

The identity files are authoritative. Hints only list the memory folders that may belong to a path, a key or a blob: a
superfluous hint costs one small read, a missing one would make a known file look new. So hints are written before the
identity, and old ones are removed after it. A few memories are simply read; for many, hints are in `memory.db`
(cache.py).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from repoagent.errors import Refused
from repoagent.memory.identity.record import FILE, Identity, load
from repoagent.storage.folders import open_folder
from repoagent.storage.layout import Layout, Warn

FEW = 8  # reading so many memories takes as long as a query to SQLite (1 ms)
PATH, EARLIER, KEY, BLOB = "path", "earlier path", "key", "blob"
Hint = tuple[str, str]
Change = tuple[str, "Identity | None", Identity]  # folder, identity before, identity after


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
    """The hints of all memories; folders are names inside the memory folder.

    Reads all identity files at once: for few memories, or if `memory.db` cannot be used.
    """

    def __init__(self, layout: Layout, warn: Warn, *, keep_file: bool = False) -> None:
        self.layout, self.warn = layout, warn
        self._keep_file = keep_file  # written by a newer repoagent, which will notice changes itself
        self._read_all()

    def _read_all(self) -> None:
        self._names: dict[Hint, list[str]] = {}
        self._all: dict[str, Identity] = {}
        for name in sorted(folders(self.layout.memory)):
            identity = load_or_warn(self.layout.memory / name, self.warn)
            if identity is not None:
                self._all[name] = identity
                for hint in hints(identity):
                    self._names.setdefault(hint, []).append(name)

    def names(self, kind: str, value: str) -> list[str]:
        """The folders with this hint, sorted."""
        return self._names.get((kind, value), [])

    def identity(self, name: str) -> Identity | None:
        """The identity in this folder, read once; None with a warning if it is unusable."""
        return self._all.get(name)

    def paths(self) -> list[tuple[str, str]]:
        """(folder, path) of every memory with hints."""
        return [(name, identity.path) for name, identity in self._all.items()]

    def hints_of(self, name: str) -> Collection[Hint]:
        """All hints of this folder."""
        return hints(self._all[name]) if name in self._all else ()

    def count(self, limit: int) -> int:
        """The number of memories, at most `limit`."""
        return min(len(self._all), limit)

    def look_again(self) -> bool:
        """Read identity files that have changed; return whether any hint has."""
        return False

    def note(self, changes: Iterable[Change]) -> None:
        """Write the hints of changes, before the new identities are saved. The caller has locked the memory."""
        path = cache_file(self.layout)
        try:
            if not self._keep_file:
                path.unlink(missing_ok=True)  # an existing one would miss these changes
        except OSError as error:
            self.warn(f"could not remove the outdated {path} ({error.strerror}); delete it")


@contextmanager
def open_index(layout: Layout, warn: Warn) -> Iterator[IdentityIndex]:
    """Open the hints, up to date. Needs no lock and writes only `memory.db`.

    Identity files that are broken, newer or not regular files are skipped with a warning. Raises Refused if the memory
    folder is a link or a file.
    """
    try:
        with open_folder(layout.memory):
            pass
    except FileNotFoundError:
        yield IdentityIndex(layout, warn)
        return
    if not os.path.lexists(cache_file(layout)) and len(list(islice(folders(layout.memory), FEW + 1))) <= FEW:
        yield IdentityIndex(layout, warn)
        return
    from repoagent.memory.identity.cache import open_cache  # SQLite is slow to load

    with open_cache(layout, warn) as cache:
        yield cache


def cache_file(layout: Layout) -> Path:
    """The path of `memory.db`, which may be missing."""
    return layout.root / "memory.db"


def folders(memory: Path) -> Iterator[str]:
    """The names of the memory folders, in any order, without links, files and names that begin with a dot."""
    try:
        with os.scandir(memory) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    yield entry.name
    except (FileNotFoundError, NotADirectoryError):
        return


def load_or_warn(folder: Path, warn: Warn) -> Identity | None:
    """The current identity in `folder`; None with a warning if it is unusable."""
    try:
        return load(folder, warn=warn)
    except Refused as error:
        warn(str(error))
        return None


def stamp(memory: str, name: str) -> str | None:
    """A value that changes with the identity file; None if there is none."""
    try:
        status = os.lstat(f"{memory}/{name}/{FILE}")
    except OSError:
        return None
    return f"{status.st_mtime_ns}:{status.st_ino}:{status.st_size}" if stat.S_ISREG(status.st_mode) else None
