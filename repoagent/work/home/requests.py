"""What is asked of a run, as files: `stop` and `pause` in its home. That one is there is the request; none is read."""

from __future__ import annotations

import os
from pathlib import Path

from repoagent.store import set_aside, write_whole
from repoagent.store.folders import failed, folder


def is_there(path: Path) -> bool:
    """Whether there is anything of that name: it is never opened."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def ask(path: Path) -> None:
    """Make the request. Raises Refused where it can't be written."""
    if not is_there(path):
        write_whole(path, b"")


def clear(path: Path) -> bool:
    """Take a request back, whatever stands there; False when there was none. Raises Refused where it can't be."""
    try:
        with folder(path.parent) as parent:
            os.unlink(path.name, dir_fd=parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        if not path.is_dir():  # a folder is said to be one in several ways, by the system
            raise failed("remove", path, error) from error
        set_aside(path)
    return True
