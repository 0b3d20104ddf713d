"""Memories that a crash has left half made."""

from __future__ import annotations

from repoagent.memory.identity import identity_file
from repoagent.store import Layout, locked
from repoagent.store.atomic import sweep

_FIRST = "seen.z"  # what is written of a memory before it has its identity


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
            if not identity_file(folder).exists() and {path.name for path in folder.iterdir()} <= {_FIRST}:
                (folder / _FIRST).unlink(missing_ok=True)
                folder.rmdir()
