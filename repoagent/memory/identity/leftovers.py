"""Memories that a crash has left half made."""

from __future__ import annotations

import re

from repoagent.store import Layout, locked
from repoagent.store.atomic import sweep

_FIRST = re.compile(r"seen(-[0-9a-f]{8})?\.z")  # what is written of a memory before it has its identity


def clear_unborn(layout: Layout) -> None:
    """Remove temporary files, and memories that never got their identity. Raises Busy or Refused."""
    if not layout.memory.is_dir():
        return
    sweep(layout.memory)
    with locked(layout.memory_lock, what="the memory of this repository"):
        for folder in sorted(layout.memory.iterdir()):
            if folder.is_symlink() or not folder.is_dir():
                continue
            sweep(folder)
            inside = list(folder.iterdir())
            if all(_FIRST.fullmatch(path.name) for path in inside):
                for path in inside:
                    path.unlink(missing_ok=True)
                folder.rmdir()
