"""What git knows of files: what each commit did to them, who works on them, what changes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.history.block import candidates_block, history_block, to_dict
    from repoagent.history.neighbors import Neighborhood, neighborhood, recent_neighborhood
    from repoagent.history.parse import FileCommit
    from repoagent.history.past import Past
    from repoagent.history.prompt import Look, last_changes, walked_since
    from repoagent.history.recent import FileHistory, Running, recent_commits, start

__all__ = [
    "FileCommit",
    "FileHistory",
    "Look",
    "Neighborhood",
    "Past",
    "Running",
    "candidates_block",
    "history_block",
    "last_changes",
    "neighborhood",
    "recent_commits",
    "recent_neighborhood",
    "start",
    "to_dict",
    "walked_since",
]

_HOME = {
    "FileCommit": "parse",
    "FileHistory": "recent",
    "Look": "prompt",
    "Neighborhood": "neighbors",
    "Past": "past",
    "Running": "recent",
    "candidates_block": "block",
    "history_block": "block",
    "last_changes": "prompt",
    "neighborhood": "neighbors",
    "recent_commits": "recent",
    "recent_neighborhood": "neighbors",
    "start": "recent",
    "to_dict": "block",
    "walked_since": "prompt",
}

__getattr__ = door(__name__, _HOME)
