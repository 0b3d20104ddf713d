"""A segment: a part of a file that is read, shown and edited on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from repoagent.split.symbols.symbol import Symbol

TARGET_BYTES = 16_384

# Why a segment begins where it does: the file begins there; a node of the syntax tree does; a node does that stands
# in a broken part of the tree or in an embedded language; a paragraph or a less indented line does in a file without
# a grammar; some line does, as nothing better was near; a line longer than a segment was cut; it did before (refresh).
Boundary = Literal["start", "node", "embedded", "blank", "indent", "line", "byte", "kept"]


@dataclass(frozen=True)
class Segment:
    """A run of bytes of a source; those of a file, joined in order, are the file.

    `start` and `end` are byte offsets in the source, `end` excluded. Lines count from 1, both included; two segments
    share a line only where it was cut (`boundary` is "byte"). `scope` names what holds its first line, outermost
    first: headings, classes, functions. `symbols` are those that begin in it. `oversize`: longer than was asked for,
    as it can't be cut.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    boundary: Boundary
    scope: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    oversize: bool = False
