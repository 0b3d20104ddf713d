"""The parts of a long file that a request is about, as far as there is room for them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.large.rank import scores
from repoagent.edit.large.recent import Touched
from repoagent.edit.large.terms import read_query
from repoagent.edit.large.units import Unit
from repoagent.edit.small.mentioned import mentioned

if TYPE_CHECKING:
    from repoagent.split import Symbol

HEAD_BYTES = 1_200  # of the beginning of the file, which says what it is; at least these, in whole lines
NEIGHBOR = 0.2  # of the score of the segments beside one
RECENT, OLDER = 0.2, 0.8  # of the best score for what the last commit touched; of that for each commit before
NAMED = 1.0  # of the best score for a definition that the request names
MOST_NAMED = 12
FLOOR = 0.2  # of the best score: what has less to do with the request is not worth its tokens
FEW = 20  # lines that are added where a part breaks off inside a function
POINTED, AROUND = 1e6, 1e4  # where a person pointed at lines, and the definition around them


@dataclass(frozen=True)
class About:
    """What tells which parts matter: the words of the request, the lines that the person pointed at (from 1, both
    included), and those that the last commits touched."""

    request: str
    places: tuple[tuple[int, int], ...] = ()
    recent: tuple[Touched, ...] = ()


def choose(
    path: str, units: Sequence[Unit], symbols: Sequence[Symbol], about: About, room: int
) -> list[Unit]:
    """The parts to show, in order of the file, neighbors made one; at most about `room` bytes.

    The beginning of the file is always among them; of the rest, what was pointed at comes first, then what the request
    is most about.
    """
    if not units:
        return []
    ranked = _ranked(path, units, symbols, about)
    chosen: dict[int, Unit] = {}
    head = _beginning(units[0], min(HEAD_BYTES, room // 4))
    spare = room // 16  # for completing them
    left = room - head.size - spare
    best = max((score for score in ranked if score < AROUND), default=0.0)
    for number in sorted(range(len(units)), key=lambda number: (-ranked[number], number)):
        if best and ranked[number] < FLOOR * best and len(chosen) > 1:
            break
        if about.places and ranked[number] < AROUND and left < room // 2:
            break  # the person has said where
        unit = units[number]
        if unit.size > left and ranked[number] >= AROUND and left > room // 8:
            unit = _beginning(unit, left)
        if unit.size <= left:
            chosen[number] = unit
            left -= unit.size
        if left < room // 64:
            break
    if 0 not in chosen:
        chosen[0] = head
    else:
        left += head.size
    parts = _joined(chosen[number] for number in sorted(chosen))
    return _joined(_completed(parts, "".join(unit.text for unit in units), symbols, left + spare))


def _completed(parts: Sequence[Unit], text: str, symbols: Sequence[Symbol], left: int) -> Iterator[Unit]:
    """The parts, with the lines of a function that a part begins or ends in where only a few are missing, as far as
    there is room."""
    rows = [f"{row}\n" for row in text.split("\n")]
    rows[-1] = rows[-1][:-1]
    spans = [(s.first_line, s.last_line) for s in symbols if s.kind in ("function", "method")]
    low = 1  # the first line that no part before this one has
    for part, after in zip_longest(parts, parts[1:]):
        high = after.first - 1 if after else len(rows)
        begins = [a for a, b in spans if max(low, part.first - FEW) <= a < part.first <= b]
        ends = [b for a, b in spans if a <= part.last < b <= min(high, part.last + FEW)]
        for first, last in ((part.first, max(ends, default=0)), (min(begins, default=0), part.last)):
            if not (first and last) or part.columns is not None:
                continue
            first, last = min(first, part.first), max(last, part.last)
            more = Unit(first, last, "".join(rows[first - 1 : last]))
            if more.size - part.size <= left:
                left -= more.size - part.size
                part = more
        low = part.last + 1
        yield part


def _ranked(path: str, units: Sequence[Unit], symbols: Sequence[Symbol], about: About) -> list[float]:
    query = read_query(about.request, path)
    spans = [(unit.first, unit.last) for unit in units]
    plain = scores([unit.text for unit in units], spans, symbols, query)
    best = max(plain) or 1.0
    last = len(units) - 1
    result = [
        score + NEIGHBOR * max(plain[max(0, number - 1)], plain[min(last, number + 1)])
        for number, score in enumerate(plain)
    ]
    bonus = [0.0] * len(units)
    for first, end, age in about.recent:
        for number in {*_holding(spans, first, first), *_holding(spans, end, end)}:
            bonus[number] = max(bonus[number], RECENT * OLDER**age)
    named = _named(symbols, about.request)
    for symbol in named:
        for row, number in enumerate(_holding(spans, symbol.first_line, symbol.last_line)):
            bonus[number] += NAMED / (1 + row / 2) / len(named) ** 0.5
    result = [score + best * extra for score, extra in zip(result, bonus, strict=True)]
    for first, end in (*about.places, *query.lines):
        _point(result, spans, symbols, first, end)
    return result


def _named(symbols: Sequence[Symbol], request: str) -> Sequence[Symbol]:
    """The definitions that the request names for sure, if they are few."""
    found = mentioned(symbols, request, limit=150, sure=True)
    return found if len(found) <= MOST_NAMED else []


def _point(
    result: list[float], spans: Sequence[tuple[int, int]], symbols: Sequence[Symbol], first: int, last: int
) -> None:
    """Raise what holds these lines above all else, then what is beside, then the function around them."""
    here = _holding(spans, first, last)
    for row, number in enumerate(here):
        result[number] += POINTED - row
    for number in {max(0, here[0] - 1), min(len(spans) - 1, here[-1] + 1)} - {*here}:
        result[number] += AROUND
    around = [s for s in symbols if s.first_line <= first <= s.last_line and s.kind in ("function", "method")]
    for symbol in around[-1:]:
        for number in _holding(spans, symbol.first_line, symbol.last_line):
            if number not in here:
                result[number] += AROUND - min(abs(number - end) for end in (here[0], here[-1]))


def _holding(spans: Sequence[tuple[int, int]], first: int, last: int) -> range:
    """The numbers of the segments that hold lines `first` to `last`; the last one for lines after the end."""
    start = min(bisect_left(spans, first, key=lambda span: span[1]), len(spans) - 1)
    end = bisect_right(spans, last, lo=start, key=lambda span: span[0])
    return range(start, max(start + 1, end))


def _beginning(unit: Unit, size: int) -> Unit:
    """As many of its first lines as have that many bytes, at least one; or as many characters of a piece of a line."""
    if unit.size <= size:
        return unit
    if unit.columns is not None:
        start = unit.columns[0]
        text = unit.text[:size]
        return Unit(unit.first, unit.last, text, (start, start + len(text)))
    lines = unit.text.splitlines(keepends=True)
    kept = [lines[0]]
    for line in lines[1:]:
        size -= len(kept[-1].encode("utf-8", "surrogatepass"))
        if size < len(line):
            break
        kept.append(line)
    return Unit(unit.first, unit.first + len(kept) - 1, "".join(kept))


def _joined(units: Iterable[Unit]) -> list[Unit]:
    """Units that follow each other as one."""
    found: list[Unit] = []
    for unit in units:
        before = found[-1] if found else None
        if (
            before is not None
            and before.columns is None
            and unit.columns is None
            and unit.first == before.last + 1
        ):
            found[-1] = Unit(before.first, unit.last, before.text + unit.text)
        elif (
            before is not None and before.columns and unit.columns
            and (before.last, before.columns[1]) == (unit.first, unit.columns[0])
        ):  # fmt: skip
            found[-1] = Unit(
                before.first, unit.last, before.text + unit.text, (before.columns[0], unit.columns[1])
            )
        else:
            found.append(unit)
    return found
