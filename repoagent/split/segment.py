"""A segment: a part of a file that is read, shown and edited on its own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.split.symbols.symbol import Symbol

TARGET_BYTES = 16_384

# Why a segment begins where it does: the file begins there; a node of the syntax tree does; a node does that stands
# in a broken part of the tree or in an embedded language; a paragraph or a less indented line does in a file without
# a grammar; some line does, as nothing better was near; an item does behind another on its line; it did before
# (refresh).
Boundary = Literal["start", "node", "embedded", "blank", "indent", "line", "byte", "kept"]


def _none() -> tuple[Symbol, ...]:
    return ()


@dataclass(frozen=True)
class Segment:
    """A run of bytes of a source; those of a file, joined in order, are the file.

    `start` and `end` are byte offsets in the source, `end` excluded. Lines count from 1, both included; two segments
    share a line only where it was cut: then the second of them is `inside_line`. `oversize`: longer than was asked
    for, as it can't be cut. `outline` gives the symbols of the whole file; it is called at the first look at `scope`
    or `symbols` of any of its segments, as it costs more than all the cutting.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    boundary: Boundary
    oversize: bool = False
    inside_line: bool = False
    outline: Callable[[], Sequence[Symbol]] = field(default=_none, repr=False, compare=False)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols whose first line begins in the segment, in order of the text."""
        found = self.outline()
        first = bisect_left(found, self.first_line + self.inside_line, key=_first_line)
        return tuple(found[first : bisect_right(found, self.last_line, lo=first, key=_first_line)])

    @property
    def scope(self) -> tuple[str, ...]:
        """The names of what begins earlier and holds the first line, outermost first: headings, classes, functions."""
        found = self.outline()
        names: list[str] = []
        depth = None
        for symbol in reversed(
            found[: bisect_left(found, self.first_line + self.inside_line, key=_first_line)]
        ):
            if depth is not None and symbol.depth >= depth:
                continue
            depth = symbol.depth
            if symbol.last_line >= self.first_line:
                names.append(symbol.name)
            if depth == 0:
                break
        return tuple(reversed(names))


def _first_line(symbol: Symbol) -> int:
    return symbol.first_line
