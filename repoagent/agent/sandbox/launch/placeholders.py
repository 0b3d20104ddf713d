"""Empty folders in the place of what must not be made by a command, for as long as one runs.

A name that does not exist can't be covered by a mount. Several commands may run at once: each holds a shared lock on
the folder, and the last one takes it away.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


@contextmanager
def placeholders(paths: Sequence[str]) -> Iterator[None]:
    """Have a folder at each of `paths` to the end of the block. What something else put there meanwhile stays."""
    held = [(path, held) for path in paths if (held := _hold(path)) is not None]
    try:
        yield
    finally:
        for path, descriptor in held:
            with suppress(OSError):  # another one holds it, or it is not empty
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(path)  # noqa: PTH106
            os.close(descriptor)


def _hold(path: str) -> int | None:
    """A descriptor with a shared lock on the folder at `path`; None if that is something else by now."""
    while True:
        with suppress(FileExistsError):
            os.mkdir(path, 0o755)  # noqa: PTH102
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):  # noqa: PTH116
                return descriptor
        except FileNotFoundError:  # taken away in between
            continue
        except NotADirectoryError:
            return None
        os.close(descriptor)
