"""The outline of a long file within a budget: in full around what is shown, elsewhere as far as there is room."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from repoagent.edit.large.rank import known_terms
from repoagent.edit.large.terms import WORD, Query

if TYPE_CHECKING:
    from repoagent.edit.large.units import Unit
    from repoagent.split import Symbol

LONGEST, SHORT = 110, 45  # characters of a signature
LONGEST_NAME = 60
SPLIT_BYTES = 5  # that a line of names takes more when it becomes two
GAP_BYTES = 45  # of a line that says what is left out
NEAR = 8  # definitions on both sides of a part that is shown


def file_map(symbols: Sequence[Symbol], shown: Sequence[Unit], query: Query, room: int) -> str:
    """One line for each definition: its lines, and its signature indented by depth; at most about `room` bytes.

    Where not all have room, signatures are shortened, then definitions are only named, then counted where they were.
    These come first: what is shown and what holds it, what stands beside that, definitions that have a word of the
    request in their name, outer before inner ones.
    """
    if not symbols:
        return ""
    best = [_line(symbol, LONGEST) for symbol in symbols]
    if _bytes(best) <= room:
        return "".join(best)
    order = sorted(range(len(symbols)), key=_importance(symbols, shown, query))
    names = [_name(symbol) for symbol in symbols]
    named = _fitting(order, [_bytes([name, ", "]) for name in names], room * 3 // 4)
    lines: dict[int, str] = {}
    left = room - _bytes([_drawn(symbols, names, named, lines)])
    for longest in (SHORT, LONGEST):
        for number in order:
            line = _line(symbols[number], longest)
            if number in lines:
                cost = _bytes([line]) - _bytes([lines[number]])
            else:
                cost = (
                    _bytes([line])
                    + SPLIT_BYTES
                    - (_bytes([names[number]]) if number in named else -GAP_BYTES)
                )
            if cost <= left:
                lines[number] = line
                left -= cost
    return _drawn(symbols, names, named, lines)


def _drawn(
    symbols: Sequence[Symbol], names: Sequence[str], named: Collection[int], lines: Mapping[int, str]
) -> str:
    """Those with lines as these, the others by their names or, where they have no room either, counted."""
    out: list[str] = []
    how = {number: "line" if number in lines else "name" for number in (*named, *lines)}
    for kind, numbers in groupby(range(len(symbols)), key=how.get):
        run = list(numbers)
        if kind == "line":
            out += [lines[number] for number in run]
        else:
            out.append(
                f"… {', '.join(names[number] for number in run)}\n"
                if kind
                else _gap([symbols[number] for number in run])
            )
    return "".join(out)


def _bytes(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _fitting(order: Sequence[int], sizes: Sequence[int], room: int) -> set[int]:
    """As many of the first in `order` as fit, with the lines that say what is left out between them."""
    kept: set[int] = set()
    left = room - GAP_BYTES
    for number in order:
        beside = (number - 1 in kept) + (number + 1 in kept)
        cost = sizes[number] + GAP_BYTES * (1 - beside)
        if cost <= left:
            kept.add(number)
            left -= cost
    return kept


def _importance(
    symbols: Sequence[Symbol], shown: Sequence[Unit], query: Query
) -> Callable[[int], tuple[float, int]]:
    """What a definition is sorted by: smaller is more important."""
    inside = _near(symbols, shown)
    words = {word for word, weight in query.words.items() if weight >= 1}
    known = known_terms({word for symbol in symbols for word in WORD.findall(symbol.name)}, query)
    told = {
        number: words.intersection(term for word in WORD.findall(symbol.name) for term in known.get(word, ()))
        for number, symbol in enumerate(symbols)
        if known
    }
    named = Counter(word for found in told.values() for word in found)

    def key(number: int) -> tuple[float, int]:
        if number in inside:
            return inside[number], number
        if found := told.get(number):
            return NEAR - sum(1 / named[word] for word in found), number
        evenly = (number & -number) or len(symbols)  # the higher the power of two, the fewer have it
        return NEAR + 1 + symbols[number].depth - evenly / (len(symbols) + 1), number

    return key


def _near(symbols: Sequence[Symbol], shown: Sequence[Unit]) -> dict[int, float]:
    """Of the definitions that are shown, hold what is shown, or stand beside it: how far away they are, from 0."""
    found: dict[int, float] = {}
    starts = [symbol.first_line for symbol in symbols]
    for unit in shown:
        low, high = bisect_left(starts, unit.first), bisect_right(starts, unit.last)
        for number in range(max(0, low - NEAR), min(len(symbols), high + NEAR)):
            away = max(low - number, number - high + 1, 0)
            found[number] = min(found.get(number, away), away)
        depth = None
        for number in range(low - 1, -1, -1):  # what holds the first line
            if depth == 0:
                break
            if depth is None or symbols[number].depth < depth:
                depth = symbols[number].depth
                if symbols[number].last_line >= unit.first:
                    found[number] = -1.0
    return found


def _name(symbol: Symbol) -> str:
    return f"{' '.join(symbol.name.split())[:LONGEST_NAME]} {symbol.first_line}"


def _line(symbol: Symbol, longest: int) -> str:
    where = (
        f"{symbol.first_line}-{symbol.last_line}"
        if symbol.last_line > symbol.first_line
        else f"{symbol.first_line}"
    )
    signature = (
        symbol.signature if len(symbol.signature) <= longest else symbol.signature[: longest - 1] + "…"
    )
    return f"{where}  {'  ' * symbol.depth}{signature}\n"


def _gap(left_out: Sequence[Symbol]) -> str:
    first, last = left_out[0], max(left_out, key=lambda symbol: symbol.last_line)
    what = "definition" + "s" * (len(left_out) != 1)
    return f"… {len(left_out)} more {what} (lines {first.first_line}-{last.last_line})\n"
