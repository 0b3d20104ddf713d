"""Where a file is cut into segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.split.cuts.splitter import segments

__all__ = ["segments"]

__getattr__ = door(__name__, {"segments": "splitter"})
