"""Edited segments become the source again: pure functions on bytes.

- `saved`: what an editor did to a segment file that nobody asked for is put right, or refused
- `carry`: where the boundaries of the segments are in a source that has moved on
- `joined`: the three-way merge, group by group of segments that can be told apart, and where it fails
- `form`: texts that git can't merge as they are (lone carriage returns), and back
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.split.joining.joined import Clash, Joined, Part, Place, join_parts
    from repoagent.split.joining.saved import Saved, source_facts, taken_over

__all__ = ["Clash", "Joined", "Part", "Place", "Saved", "join_parts", "source_facts", "taken_over"]

_HOME = {
    "Clash": "joined",
    "Joined": "joined",
    "Part": "joined",
    "Place": "joined",
    "Saved": "saved",
    "join_parts": "joined",
    "source_facts": "saved",
    "taken_over": "saved",
}

__getattr__ = door(__name__, _HOME)
