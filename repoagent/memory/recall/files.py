"""The files that are searched, and by what one sees that they have changed: nothing is opened."""

from __future__ import annotations

import os
import stat
from array import array
from collections.abc import Iterator
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.store import Layout

_IN_MEMORY = ("identity.json", "notes.md", "edits.jsonl", "conversation.md")
_IN_FLIGHT = "edit-"  # conversations of edits that are at work: at their end they go to the memories
_ARCHIVE = "archive"  # in a memory: what had to make room
_MASK = (1 << 63) - 1


MANY = 1_500  # memories: of more only the folders are looked at


class Glance(NamedTuple):
    """`mark` is the same as long as no folder has changed; `newest` is the time of the last change, in nanoseconds."""

    mark: bytes
    newest: int


class Stamp(NamedTuple):
    """Time of change in nanoseconds, inode, and size of a file: another text has another stamp."""

    time: int
    inode: int
    size: int


@dataclass(frozen=True)
class Sweep:
    """The files that are there, by their path below the root. `mark` is the same for the same sweep."""

    seen: tuple[tuple[str, os.stat_result], ...]
    mark: bytes

    @cached_property
    def files(self) -> dict[str, Stamp]:
        """Each file with its stamp."""
        return {
            path: Stamp(one.st_mtime_ns & _MASK, one.st_ino & _MASK, one.st_size) for path, one in self.seen
        }


def sweep(layout: Layout) -> Sweep:
    """Look at all files that are searched. Links, and what is no regular file, are left out."""
    try:
        root = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return Sweep((), b"")
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
    return Sweep(tuple(found), hashed.digest())


def glance(layout: Layout) -> Glance | None:
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
    return Glance(hashed.digest(), max(times, default=0))


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
