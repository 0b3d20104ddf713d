"""What git knows about a file's past: its last commits, and how they are shown."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.history.block import history_block, to_dict
    from repoagent.history.parse import FileCommit
    from repoagent.history.past import Past
    from repoagent.history.prompt import Look
    from repoagent.history.recent import FileHistory, Running, recent_commits, start
    from repoagent.history.together import Partner, Together, partners_block

__all__ = [
    "FileCommit",
    "FileHistory",
    "Look",
    "Partner",
    "Past",
    "Running",
    "Together",
    "history_block",
    "partners_block",
    "recent_commits",
    "start",
    "to_dict",
]

_HOME = {
    "FileCommit": "parse",
    "FileHistory": "recent",
    "Look": "prompt",
    "Partner": "together",
    "Past": "past",
    "Running": "recent",
    "Together": "together",
    "history_block": "block",
    "partners_block": "together",
    "recent_commits": "recent",
    "start": "recent",
    "to_dict": "block",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
