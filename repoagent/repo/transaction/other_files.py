"""The user's other uncommitted files: remembered before hooks run, and put right after them."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from repoagent.repo.content import Content, look
from repoagent.repo.write import put
from repoagent.store.journal import Journal

_BYTES = 256 * 1024 * 1024  # of all of them; what is larger is not copied, and hooks may change it


@dataclass(frozen=True)
class Saved:
    """What a file held before hooks ran; None where it was deleted. `temporary` is a free name beside it."""

    path: str
    content: Content | None
    temporary: str


def remember(top: Path, edit_id: str, paths: Sequence[str]) -> tuple[Saved, ...]:
    """What the files hold."""
    found = []
    left = _BYTES
    for number, path in enumerate(paths):
        try:
            status = (top / path).lstat()
        except OSError:
            size = 0
        else:
            if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                continue  # a folder in the place of a deleted file
            size = status.st_size
        if size <= left:
            left -= size
            found.append(Saved(path, look(top, path), f".repoagent-{edit_id}-other-{number}"))
    return tuple(found)


def put_right(top: Path, journal: Journal, saved: Sequence[Saved]) -> list[str]:
    """Give the files what they held; the paths where that was needed.

    What was found instead is kept in the journal's folder as `found-N`: it may be a save of the user's.
    """
    restored = []
    for number, one in enumerate(saved):
        found = look(top, one.path)
        if found == one.content:
            continue
        if found is not None:
            journal.keep(f"found-{number}", found.data)
        put(top, one.path, found, one.content, one.temporary)
        restored.append(one.path)
    return restored
