"""A changed file cut into blocks: a few lines that changed with what stands around them, asked about at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.llm import estimate_tokens
from repoagent.review.model.view import View

if TYPE_CHECKING:
    from repoagent.split import Symbol

AROUND = 8  # lines of context
WHOLE = 80  # lines of a definition that is shown whole
MOST_LINES, MOST_CHARACTERS = 300, 24_000  # of one block
SHOWN = 400  # characters of a line


@dataclass(frozen=True)
class Row:
    """A line as it is shown: " " stays, "+" was added, "-" removed; a removed one has its number in the old file."""

    sign: str
    number: int
    text: str

    @property
    def shown(self) -> str:
        text = self.text if len(self.text) <= SHOWN else self.text[:SHOWN] + " …(cut)"
        return f"{self.number:>6} {self.sign}| {text}".rstrip()


@dataclass(frozen=True)
class Block:
    """A stretch of one file; `scope` is what it stands in."""

    view: View = field(repr=False, compare=False)
    rows: tuple[Row, ...]
    scope: str = ""

    @property
    def path(self) -> str:
        return self.view.path

    @cached_property
    def text(self) -> str:
        return "".join(f"{row.shown}\n" for row in self.rows)

    @cached_property
    def tokens(self) -> int:
        return estimate_tokens(self.text) + 20

    @property
    def name(self) -> str:
        """The lines of it that changed, for a person: `src/a.py:10-14`."""
        numbers = [row.number for row in self.rows if row.sign == "+"] or [self.rows[0].number]
        return f"{self.path}:{numbers[0]}" + (f"-{numbers[-1]}" if numbers[-1] > numbers[0] else "")

    def first(self, *, old: bool) -> int:
        """The line that the places in this block are counted from."""
        return next((row.number for row in self.rows if (row.sign == "-") is old), 0)

    def key(self, asked: str) -> str:
        """A hash of what is asked of it, wherever it stands in its file."""
        said = "\n".join([asked, self.path, self.scope, *(row.sign + row.text for row in self.rows)])
        return sha256(said.encode("utf-8", "surrogatepass")).hexdigest()


def symbols_of(view: View) -> list[Symbol]:
    """The definitions of the new text; none where that is not at hand or has no grammar."""
    from repoagent.split import outline

    return list(outline(view.path, view.data)) if view.data is not None else []


def scopes(view: View, symbols: Sequence[Symbol]) -> dict[int, str]:
    """What each added line is part of: the qualified name of the innermost definition."""
    found: dict[int, str] = {}
    for number in view.changed(old=False):
        symbol = _innermost(symbols, number, number)
        if symbol is not None:
            found[number] = symbol.qualified_name
    return found


def blocks_of(view: View, symbols: Sequence[Symbol]) -> list[Block]:
    """The blocks of a file, in its order. Every changed line is in exactly one."""
    stretches: list[list[int]] = []
    for one in view.hunks:
        start = one.new if one.added else one.new + 1
        end = start + max(len(one.added), 1) - 1
        first, last = _around(view, symbols, start, end)
        if stretches and first <= stretches[-1][1]:
            stretches[-1][0] = min(stretches[-1][0], first)
            stretches[-1][1] = max(stretches[-1][1], last)
        else:
            stretches.append([first, last])
    found = []
    for first, last in stretches:
        rows = _rows(view, first, last)
        for part in _cut(rows, symbols):
            if any(row.sign != " " for row in part):
                found.append(Block(view, part, _scope(part, symbols)))
    return found


def _around(view: View, symbols: Sequence[Symbol], start: int, end: int) -> tuple[int, int]:
    last = max(view.new, default=0)
    holding = _innermost(symbols, start, min(end, last), WHOLE)
    if (
        holding is not None
    ):  # what stands around it is not shown, so that a change there is none of this block
        return holding.first_line, holding.last_line
    return max(1, start - AROUND), min(end + AROUND, max(last, 1))


def _innermost(symbols: Sequence[Symbol], start: int, end: int, most: int | None = None) -> Symbol | None:
    """The smallest definition that holds the lines; with `most` the largest of at most so many lines."""
    holding = [one for one in symbols if one.first_line <= start and end <= one.last_line]
    if most is None:
        return min(holding, key=lambda one: one.last_line - one.first_line, default=None)
    small = [one for one in holding if one.last_line - one.first_line < most]
    return max(small, key=lambda one: one.last_line - one.first_line, default=None)


def _rows(view: View, first: int, last: int) -> list[Row]:
    """The lines `first` to `last` of the new text, with the removed ones where they stood."""
    rows: list[Row] = []
    added = set(view.changed(old=False))
    removed = {one.new if one.added else one.new + 1: one for one in view.hunks if one.removed}
    to_end = last >= max(view.new, default=0)
    for number in range(first, last + 2):
        if (one := removed.get(number)) and (number <= last or to_end):
            rows += [Row("-", one.old + n, view.old.get(one.old + n, "")) for n in range(len(one.removed))]
        if number <= last and number in view.new:
            rows.append(Row("+" if number in added else " ", number, view.new[number]))
    return rows


def _cut(rows: list[Row], symbols: Sequence[Symbol]) -> list[tuple[Row, ...]]:
    """Parts that are not too long, cut where a definition begins if there is such a place in the second half."""
    starts = {symbol.first_line for symbol in symbols}
    parts = []
    while rows:
        end = size = 0
        while (
            end < len(rows)
            and end < MOST_LINES
            and (not end or size + len(rows[end].shown) < MOST_CHARACTERS)
        ):
            size += len(rows[end].shown) + 1
            end += 1
        if end < len(rows):
            good = [n for n in range(end // 2, end) if rows[n].sign != "-" and rows[n].number in starts]
            end = max(good[-1] if good else end, 1)
        parts.append(tuple(rows[:end]))
        rows = rows[end:]
    return parts


def _scope(rows: Sequence[Row], symbols: Sequence[Symbol]) -> str:
    numbers = [row.number for row in rows if row.sign == "+"] or [
        row.number for row in rows if row.sign == " "
    ]
    symbol = _innermost(symbols, numbers[0], numbers[-1]) if numbers else None
    return symbol.signature if symbol is not None else ""
