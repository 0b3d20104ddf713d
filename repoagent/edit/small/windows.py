"""A part of a long file that is shown, and asked for, as a whole: a range of lines cut at definitions.

The part is found by the place that the person pointed at, or by the names and quotes in the request; where neither
tells, `question` asks a model for names. Everything outside the part stays as it is, to the byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.small.mentioned import mentioned
from repoagent.edit.small.unasked import frozen_words
from repoagent.patch import decode, differing

if TYPE_CHECKING:
    from repoagent.split import Symbol

MOST_WINDOWS = 4
NEAR = 6  # lines between two parts that are then shown as one
KEYS = 40  # lines of a table of keys that is shown for one of them
_BODIES = frozenset({"function", "method"})
# "as sortBy does", "like the one of postgres": to be looked at, not to be changed.
_LIKE = (
    r"\b(?:as|like|than|similar to|following|see)\s+"
    r"(?:(?:the|one|ones|way|of|in|that|for|method|function|does|do)\s+)*`?"
)
_QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")


@dataclass(frozen=True)
class Window:
    """Lines `first` to `last` of a file as it was read (from 1, both included), and what they define."""

    path: str
    first: int
    last: int
    names: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What a sentence calls it."""
        lines = f"lines {self.first}-{self.last}" if self.last > self.first else f"line {self.first}"
        return f"{' and '.join(self.names)} ({lines})" if self.names else lines


def find_windows(
    path: str, data: bytes, instruction: str, places: Sequence[tuple[int, int]], limit: int
) -> tuple[Window, ...]:
    """The parts of the file that a request is about, in order of the file; none when that can't be told.

    `places` are lines that the person pointed at (from 1, both included); without any, the names and quotes in
    `instruction` tell. All parts together have at most about `limit` lines.
    """
    from repoagent.split import outline

    text = decode(data)
    if text is None or not text.lines:
        return ()
    symbols = outline(path, data)
    if not places:
        aside = {*_alike(symbols, instruction), *_staying(symbols, instruction)}
        rest = [symbol for symbol in symbols if symbol not in aside]
        named = mentioned(rest, instruction, limit) or mentioned(symbols, instruction, limit)
        places = [(s.first_line, s.last_line) for s in named]
        places = places or _quoted(text.lines, instruction)
    return _windows(path, text.lines, symbols, places, limit)


def find_models(path: str, data: bytes, instruction: str, limit: int) -> tuple[Window, ...]:
    """The parts of the file that a request names as examples to follow ("as sortBy does")."""
    from repoagent.split import outline

    text = decode(data)
    if text is None:
        return ()
    symbols = outline(path, data)
    alike = _alike(symbols, instruction)
    if not mentioned([symbol for symbol in symbols if symbol not in alike], instruction, limit):
        return ()
    return _windows(path, text.lines, symbols, [(s.first_line, s.last_line) for s in alike], limit)


def _alike(symbols: Sequence[Symbol], instruction: str) -> list[Symbol]:
    """What is to be followed."""
    lowered = instruction.lower()
    named = [s for s in symbols if s.name.lower() in lowered]
    return [s for s in named if re.search(rf"{_LIKE}{re.escape(s.name)}\b", instruction, re.IGNORECASE)]


def _staying(symbols: Sequence[Symbol], instruction: str) -> list[Symbol]:
    """What shall stay as it is."""
    stays = frozen_words(instruction)
    return [symbol for symbol in symbols if {symbol.name, symbol.qualified_name} & stays]


def _windows(
    path: str, lines: Sequence[str], symbols: Sequence[Symbol], places: Iterable[tuple[int, int]], limit: int
) -> tuple[Window, ...]:
    found = [_around(first, last, symbols, lines, limit) for first, last in places]
    merged: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        elif merged and first <= merged[-1][1] + NEAR and last - merged[-1][0] < limit // 2:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    if len(merged) > MOST_WINDOWS or sum(last - first + 1 for first, last in merged) > limit:
        return ()
    return tuple(Window(path, first, last, _names(symbols, lines, first, last)) for first, last in merged)


def _around(
    first: int, last: int, symbols: Sequence[Symbol], lines: Sequence[str], limit: int
) -> tuple[int, int]:
    """The definition around these lines: the function, else the smallest thing that holds them, else their block."""
    last = min(last, len(lines))
    holding = [s for s in symbols if s.first_line <= first and last <= s.last_line]
    small = [s for s in holding if s.last_line - s.first_line < limit]
    bodies = [
        s for s in small if s.kind in _BODIES or (s.kind == "key" and s.last_line - s.first_line < KEYS)
    ]
    if small:
        itself = [s for s in bodies if (s.first_line, s.last_line) == (first, last) and first < last]
        chosen = (itself or bodies or small[-1:])[0]
        return _trimmed(chosen.first_line, chosen.last_line, lines)
    touched = [s for s in symbols if s.first_line <= last and first <= s.last_line and s not in holding]
    if touched and not holding:
        wide = min(first, touched[0].first_line), max(last, *(s.last_line for s in touched))
        if wide[1] - wide[0] < limit:
            return _trimmed(*wide, lines)
    low, high = (holding[-1].first_line, holding[-1].last_line) if holding else (1, len(lines))
    while first > low and lines[first - 2].strip() and last - first < limit // 2:
        first -= 1
    while last < high and lines[last].strip() and last - first < limit // 2:
        last += 1
    return _trimmed(first, last, lines)


def _trimmed(first: int, last: int, lines: Sequence[str]) -> tuple[int, int]:
    """Without the blank lines at both ends: models drop them."""
    last = min(last, len(lines))
    while first < last and not lines[first - 1].strip():
        first += 1
    while last > first and not lines[last - 1].strip():
        last -= 1
    return first, last


def _names(symbols: Sequence[Symbol], lines: Sequence[str], first: int, last: int) -> tuple[str, ...]:
    """The outermost definitions that lie wholly in these lines."""
    inside = [
        s for s in symbols if first <= s.first_line and _trimmed(s.first_line, s.last_line, lines)[1] <= last
    ]
    outer: list[Symbol] = []
    for symbol in inside:
        if not outer or symbol.first_line > outer[-1].last_line:
            outer.append(symbol)
    return tuple(symbol.qualified_name for symbol in outer)


def _quoted(lines: Sequence[str], instruction: str) -> list[tuple[int, int]]:
    """The lines that hold what the instruction quotes, each if only one line does."""
    found = []
    for match in _QUOTED.finditer(instruction):
        quote = next(group for group in match.groups() if group)
        rows = [number for number, line in enumerate(lines, 1) if quote in line]
        if len(rows) == 1:
            found.append((rows[0], rows[0]))
    return found


def question(path: str, data: bytes, instruction: str) -> str:
    """What to ask a model that has to say first which part of a file a request is about; "" without an outline."""
    from repoagent.split import outline

    names = list(dict.fromkeys(s.qualified_name for s in outline(path, data) if s.depth < 2))[:120]
    if not names:
        return ""
    listed = "\n".join(names)
    return (
        f"The file {path} defines:\n\n{listed}\n\nThe request: {instruction.strip()}\n\n"
        "Which of these have to change? Answer with the names only, one on a line, at most three."
    )


def answered_windows(path: str, data: bytes, answer: str, limit: int) -> tuple[Window, ...]:
    """The parts that the answer to `question` names; none when it names nothing, or too much."""
    from repoagent.split import outline

    text, symbols = decode(data), outline(path, data)
    if text is None:
        return ()
    named = mentioned(symbols, answer, limit, plain=True)
    return _windows(path, text.lines, symbols, [(s.first_line, s.last_line) for s in named], limit)


def rows_now(window: Window, before: Sequence[str], now: Sequence[str]) -> tuple[int, int]:
    """The lines of `now` (from 0, the second not included) that have come of the window in `before`."""
    first, last = window.first - 1, window.last
    start, end = first, last
    for i1, i2, j1, j2 in differing(before, now):
        if i2 <= first and i1 < first:
            start = first + j2 - i2
        elif i1 < first < i2:
            start = j1
        if i1 < last or i1 == i2 == last:
            end = last + j2 - i2 if i2 <= last else j2
    return start, max(start, end)
