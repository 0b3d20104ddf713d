"""Grammars: what language a file is in, whether a change still parses, what a file defines and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.split.cuts import segments
    from repoagent.split.languages import LANGUAGES, grammar, language_of
    from repoagent.split.segment import TARGET_BYTES, Segment
    from repoagent.split.symbols.find import definitions, find_symbols, lost_definitions, nearly_named
    from repoagent.split.symbols.outlines import outline
    from repoagent.split.symbols.symbol import Symbol, render_outline
    from repoagent.split.trees import error_count, parse
    from repoagent.split.worse import parse_doubt, parses_worse

__all__ = [
    "LANGUAGES",
    "TARGET_BYTES",
    "Segment",
    "Symbol",
    "definitions",
    "error_count",
    "find_symbols",
    "grammar",
    "language_of",
    "lost_definitions",
    "nearly_named",
    "outline",
    "parse",
    "parse_doubt",
    "parses_worse",
    "render_outline",
    "segments",
]

_HOME = {
    "LANGUAGES": "languages",
    "Segment": "segment",
    "Symbol": "symbols.symbol",
    "TARGET_BYTES": "segment",
    "definitions": "symbols.find",
    "error_count": "trees",
    "find_symbols": "symbols.find",
    "grammar": "languages",
    "language_of": "languages",
    "lost_definitions": "symbols.find",
    "nearly_named": "symbols.find",
    "outline": "symbols.outlines",
    "parse": "trees",
    "parse_doubt": "worse",
    "parses_worse": "worse",
    "render_outline": "symbols.symbol",
    "segments": "cuts",
}

__getattr__ = door(__name__, _HOME)
