"""Grammars: what language a file is in, whether a change still parses, what a file defines and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.split.find import definitions, find_symbol, lost_definitions
    from repoagent.split.languages import LANGUAGES, grammar, language_of
    from repoagent.split.outlines import outline
    from repoagent.split.symbols import Symbol, render_outline
    from repoagent.split.trees import error_count, parse
    from repoagent.split.worse import parses_worse

__all__ = [
    "LANGUAGES",
    "Symbol",
    "definitions",
    "error_count",
    "find_symbol",
    "grammar",
    "language_of",
    "lost_definitions",
    "outline",
    "parse",
    "parses_worse",
    "render_outline",
]

_HOME = {
    "LANGUAGES": "languages",
    "Symbol": "symbols",
    "definitions": "find",
    "error_count": "trees",
    "find_symbol": "find",
    "grammar": "languages",
    "language_of": "languages",
    "lost_definitions": "find",
    "outline": "outlines",
    "parse": "trees",
    "parses_worse": "worse",
    "render_outline": "symbols",
}

__getattr__ = door(__name__, _HOME)
