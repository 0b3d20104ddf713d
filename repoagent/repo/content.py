"""What a file of the work tree holds, and its place: found without following a symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.repo.change import EXECUTABLE, REGULAR, SYMLINK

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SWAPPED = {
    errno.ELOOP,
    errno.EINVAL,
    errno.ENXIO,
    errno.EISDIR,
}  # a link, a file in place of one, a socket, a folder
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Content:
    """The bytes of a file and its git mode; those of a symbolic link are its target."""

    data: bytes
    mode: str = REGULAR

    @property
    def is_link(self) -> bool:
        return self.mode == SYMLINK


@dataclass(frozen=True)
class Place:
    """The file `path`: its open folder, its name there, and a name beside it that is ours."""

    folder: int
    name: str
    path: str
    temporary: str

    def look(self, name: str) -> Content | None:
        """What is at `name` in the folder. Raises Refused for a folder or a special file, and for what becomes another
        thing in this moment."""
        try:
            status = os.stat(name, dir_fd=self.folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return Content(os.fsencode(os.readlink(name, dir_fd=self.folder)), SYMLINK)
            if not stat.S_ISREG(status.st_mode):
                raise self._special()
            descriptor = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _SWAPPED:
                raise self._special() from error
            raise
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._special()
            return Content(file.read(), EXECUTABLE if status.st_mode & stat.S_IXUSR else REGULAR)

    def _special(self) -> Refused:
        return Refused(f"{self.path} is not a regular file: repoagent leaves it alone")

    def open(self, name: str, flags: int, permissions: int = 0o600) -> int:
        return os.open(name, flags | _FILE, permissions, dir_fd=self.folder)

    def link(self, source: str, target: str) -> None:
        os.link(source, target, src_dir_fd=self.folder, dst_dir_fd=self.folder, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)


@contextmanager
def open_place(top: Path, path: str, temporary: str = "", *, create: bool = False) -> Iterator[Place]:
    """The place of `path` (relative to `top`); with `create`, folders are made where they are missing."""
    *folders, name = path.split("/")
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            inner = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        yield Place(here, name, path, temporary)
    finally:
        os.close(here)


def look(top: Path, path: str) -> Content | None:
    """What is at `path` (relative to `top`), or None. Raises Refused for a folder or a special file."""
    try:
        with open_place(top, path) as place:
            return place.look(place.name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def same(one: Content | None, other: Content | None) -> bool:
    """Equal bytes of the same kind. The executable bit does not count: where core.fileMode is off it means
    nothing."""
    if one is None or other is None:
        return one is other
    return one.data == other.data and one.is_link == other.is_link


def torn(found: Content | None, old: Content | None, new: Content | None) -> bool:
    """Whether `found` is `old` half overwritten in place by `new`."""
    if found is None or old is None or new is None or found.is_link:
        return False
    ours = _common_length(found.data, new.data)
    return found.data[ours:] == old.data[ours:]


def _common_length(one: bytes, other: bytes) -> int:
    """How many bytes both begin with, by halving: a loop over bytes is slow."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
