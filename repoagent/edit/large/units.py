"""A file as segments with their text: what is shown or not shown, each as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest

from repoagent.dataclass import dataclass

UNIT_BYTES = 1_600  # of a segment; measured with bench/large: larger ones waste room, smaller ones are torn


@dataclass(frozen=True)
class Unit:
    """Lines `first` to `last` of a file (from 1, both included). `columns` are the characters of the one line that it
    is a piece of (from 0, the second not included), None for whole lines."""

    first: int
    last: int
    text: str
    columns: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=4)  # the prompts of one edit, and the benchmark, ask for the same file more than once
def units(path: str, text: str) -> tuple[Unit, ...]:
    """The segments of a text with plain newlines, in order; lines that are longer than a segment in pieces."""
    from repoagent.split import segments

    data = text.encode("utf-8", "surrogatepass")
    found: list[Unit] = []
    column = 0  # in the line where the next segment begins
    for segment in segments(path, data, target=UNIT_BYTES):
        part = data[segment.start : segment.end].decode("utf-8", "replace")
        for unit in _whole_lines(segment.first_line, column, part):
            found.append(unit)
            column = 0 if unit.text.endswith("\n") else unit.columns[1] if unit.columns else len(unit.text)
    return tuple(_marked(found))


def _whole_lines(first: int, column: int, text: str) -> Iterator[Unit]:
    """The text of a segment with its pieces of lines apart: what stands before the first newline when it begins inside
    a line, and lines that are too long."""
    at, line = 0, first
    start, start_line = 0, first  # of the whole lines that are being gathered
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        inside = column if at == 0 else 0
        if inside or end - at > UNIT_BYTES:
            if start < at:
                yield Unit(start_line, line - 1, text[start:at])
            for piece in range(at, end, UNIT_BYTES):
                stop = min(end, piece + UNIT_BYTES)
                yield Unit(line, line, text[piece:stop], (inside + piece - at, inside + stop - at))
            start, start_line = end, line + 1
        line += 1
        at = end
    if start < len(text):
        yield Unit(start_line, line - 1, text[start:])


def _marked(found: list[Unit]) -> Iterator[Unit]:
    """The units, those that end inside a line marked as pieces of it too."""
    for unit, after in zip_longest(found, found[1:]):
        goes_on = after is not None and after.columns and after.columns[0] and unit.last == after.first
        if not goes_on or unit.columns is not None:
            yield unit
            continue
        *whole, tail = unit.text.split("\n")
        if whole:
            yield Unit(unit.first, unit.last - 1, "".join(f"{line}\n" for line in whole))
        yield Unit(unit.last, unit.last, tail, (0, len(tail)))
