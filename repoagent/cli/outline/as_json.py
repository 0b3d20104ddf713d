"""The outlines of files as data for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.split.symbols.files import Outline

VERSION = 1


def render(found: Sequence[Outline], left_out: Sequence[Outline]) -> str:
    """The symbols of a file are one list in order of the text; `depth` says which hold which."""
    content = {
        "version": VERSION,
        "files": [
            {
                "path": outline.path,
                "language": outline.language,
                "lines": outline.lines,
                "errors": outline.flaws,
                "symbols": [asdict(symbol) for symbol in outline.symbols],
            }
            for outline in found
        ],
        "skipped": [{"path": outline.path, "reason": outline.kind} for outline in left_out],
    }
    return json.dumps(content, indent=2) + "\n"
