"""Commands of the person's around the loop: before a turn, after an edit, before a run counts as finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.around.commands import Around, Said

__all__ = ["Around", "Said"]

_HOME = {"Around": "commands", "Said": "commands"}

__getattr__ = door(__name__, _HOME)
