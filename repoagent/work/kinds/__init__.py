"""Kinds of child agents: what each is for, and what a child of that kind gets of what its parent has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.kinds.find import find_kinds
    from repoagent.work.kinds.kind import BUILT_IN, EXPLORE, Budget, Kind
    from repoagent.work.kinds.narrow import Child, narrowed
    from repoagent.work.kinds.prompt import instructions_text, kinds_block

__all__ = [
    "BUILT_IN",
    "EXPLORE",
    "Budget",
    "Child",
    "Kind",
    "find_kinds",
    "instructions_text",
    "kinds_block",
    "narrowed",
]

_HOME = {
    "BUILT_IN": "kind",
    "Budget": "kind",
    "Child": "narrow",
    "EXPLORE": "kind",
    "Kind": "kind",
    "find_kinds": "find",
    "instructions_text": "prompt",
    "kinds_block": "prompt",
    "narrowed": "narrow",
}

__getattr__ = door(__name__, _HOME)
