"""Open folders so that a hostile repository cannot redirect them.

Everything from a component named `.repoagent` on may be repository content: each component is opened relative to its
parent's descriptor and must be a real folder. The folders above it, and the git directory, are trusted.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from repoagent.errors import Refused

FOLDER = ".repoagent"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class SystemFailed(Refused):
    """A system call failed: no space, no permission, a read-only disk."""


def system_failed(verb: str, path: Path, error: OSError) -> SystemFailed:
    """The error to raise for a failed system call."""
    return SystemFailed(f"cannot {verb} {path}: {error.strerror or error}; fix that and try again")


@contextmanager
def open_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of the folder `path`; with `create`, create missing folders. Raises Refused if a component
    from `.repoagent` on is a symbolic link or not a folder, and FileNotFoundError if there is no such folder."""
    current, below = _split(path)
    try:
        if create:
            current.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(current, _OPEN)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise system_failed("open the folder", current, error) from error
    try:
        for name in below:
            current /= name
            try:
                if create:
                    with suppress(FileExistsError):  # opening it checks its type
                        os.mkdir(name, 0o755 if name == FOLDER else 0o700, dir_fd=descriptor)
                inner = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=descriptor)
            except FileNotFoundError:
                raise
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                    raise system_failed("open the folder", current, error) from error
                kind = "a symbolic link" if current.is_symlink() else "not a folder"
                raise Refused(
                    f"{current} is {kind}, and repoagent keeps its files in real folders only: "
                    "remove it or move it away"
                ) from error
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def resolve_above(path: Path) -> Path:
    """`path` with symbolic links resolved only above `.repoagent`, so that `open_folder` refuses those below."""
    above, below = _split(path)
    return Path(os.path.realpath(above), *below)


def _split(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Split `path` before its first component named `.repoagent`."""
    parts = path.parts
    cut = parts.index(FOLDER) if FOLDER in parts else len(parts)
    return Path(*parts[:cut]), parts[cut:]


def require_regular(descriptor: int, path: Path) -> os.stat_result:
    """The stat result of an open file. Raises Refused if it is not a regular file."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path} is not a regular file: remove it or move it away")
    return status
