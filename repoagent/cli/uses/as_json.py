"""Uses as data for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.uses import Answer

VERSION = 1


def render(found: Answer) -> str:
    """Paths keep bytes that are no UTF-8 as surrogate escapes. All lines of a file are there, whatever is shown."""
    return json.dumps({"version": VERSION, **asdict(found)}, indent=2) + "\n"
