"""Where memories are made ready before they are moved to their place, and where they go before they are removed.

One command at a time has it, so that what is found there when it is taken was left by one that was killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from repoagent.errors import Refused
from repoagent.store import Layout, ensure, locked
from repoagent.store.atomic import sweep
from repoagent.store.folders import failed, folder

ARCHIVE = "archive"  # what was put away
_NAME, _LOCK = "arriving", "archive.lock"


@contextmanager
def scratch(layout: Layout) -> Iterator[Path]:
    """An empty folder on the disk of the memories, for the block. Raises Busy while another import or gc is at work,
    Refused where it can't be made."""
    ensure(layout)
    place = layout.root / _NAME
    with locked(layout.root / _LOCK, what="bringing memories in, or putting them away,"):
        _clear(place)
        sweep(layout.root / ARCHIVE)
        with folder(place, create=True):
            pass
        try:
            yield place
        finally:
            _clear(place)


def move(place: Path, to: Path) -> None:
    """Rename a folder, durably. Raises OSError where something is in the way."""
    with folder(place.parent) as source, folder(to.parent, create=True) as target:
        os.rename(place.name, to.name, src_dir_fd=source, dst_dir_fd=target)
        os.fsync(target)
        os.fsync(source)


def _clear(place: Path) -> None:
    if place.is_symlink():
        raise Refused(f"{place} is a symbolic link: remove it or move it away")
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failed("remove", place, error) from error
