"""Hunks in parts: with code left out between (`...`), or with two places of the file run together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from repoagent.patch.hunk import ADD, CONTEXT, DELETE, Hunk, Line, is_elision
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import (
    ELISION,
    LEVELS,
    SPLIT,
    WHITESPACE,
    FileIndex,
    find_old,
    indent_of,
    is_blank,
)
from repoagent.patch.problems import Misfit

_MOST = 40
_MOST_CHAINS = 1000
_MOST_PARTS = 12
Rows = tuple[int, ...]


def chained(hunk: Hunk, index: FileIndex, loosest: str = WHITESPACE) -> list[Fit]:
    """The places of a hunk whose parts stand in the file one after another, with other lines between them; no part is
    found at a level beyond `loosest`."""
    if any(line.kind == CONTEXT and is_elision(line.text) for line in hunk.lines):
        return _elided(hunk, index, loosest)
    return _fused(hunk, index, loosest)


def _elided(hunk: Hunk, index: FileIndex, loosest: str) -> list[Fit]:
    """Each part between two elisions is found by itself; chains that stay in one block come first."""
    parts: list[list[Line]] = [[]]
    for line in hunk.lines:
        if line.kind == CONTEXT and is_elision(line.text):
            parts.append([])
        else:
            parts[-1].append(line)
    olds = [[line for line in part if line.kind != ADD] for part in parts]
    if any(part and all(is_blank(line.text) for line in old) for part, old in zip(parts, olds, strict=True)):
        return []
    options = [_places(old, index, loosest) for old in olds if old]
    chains = _chains(options, lambda one, other: _in_one_block((one, other), index.lines)) or _chains(options)
    if len(chains) > _MOST_CHAINS:
        return []
    return _fitting(hunk, [[*_with_gaps(chain, olds)] for chain in chains])


def _fitting(hunk: Hunk, rows: Sequence[Sequence[int | None]]) -> list[Fit]:
    """One fit for each different change."""
    found: dict[object, Fit] = {}
    for some in rows:
        fit = Fit(hunk, tuple(some), ELISION)
        try:
            found.setdefault(tuple(fit.changes()), fit)
        except Misfit:  # an addition between two elisions: nothing holds it
            return []
    return list(found.values())


def _with_gaps(chain: Sequence[Rows], olds: Sequence[Sequence[Line]]) -> Iterator[int | None]:
    """The rows of a chain with None for each elision line, as `hunk.old` has them."""
    rows = iter(chain)
    for number, old in enumerate(olds):
        if number:
            yield None
        if old:
            yield from next(rows)


def _places(old: Sequence[Line], index: FileIndex, loosest: str) -> list[Rows]:
    for level in LEVELS:
        found = find_old(old, index, level)
        if found:
            return [tuple(range(start, start + len(old))) for start in found]
        if level == loosest:
            break
    return []


def _chains(
    options: Sequence[Sequence[Rows]], follows: Callable[[Rows, Rows], bool] | None = None
) -> list[tuple[Rows, ...]]:
    """The ways to take one place of each part, each after the one before it and such that it `follows` that.

    Of the places after a part the nearest `_MOST` are looked at. More than `_MOST_CHAINS` come out where there are too
    many to look at all.
    """
    if not all(options) or not options:
        return []
    work: list[tuple[Rows, ...]] = [(place,) for place in reversed(options[0])]
    found: list[tuple[Rows, ...]] = []
    while work and len(found) <= _MOST_CHAINS:
        chain = work.pop()
        if len(chain) == len(options):
            found.append(chain)
            continue
        rest = options[len(chain)]
        first = bisect_right(rest, chain[-1][-1], key=lambda place: place[0])
        near = rest[first : first + _MOST]
        work += [(*chain, place) for place in reversed(near) if follows is None or follows(chain[-1], place)]
    return found


def _in_one_block(chain: Sequence[Rows], lines: Sequence[str]) -> bool:
    """Does no line between the parts end the block that the part before is in?"""
    for before, after in pairwise(chain):
        outer, inner = _depth(lines, before[::-1]), _depth(lines, after)
        least = outer + 1 if inner > outer else min(outer, inner)
        between = (lines[row] for row in range(before[-1] + 1, after[0]))
        if any(len(indent_of(line).expandtabs(4)) < least for line in between if not is_blank(line)):
            return False
    return True


def _depth(lines: Sequence[str], rows: Sequence[int]) -> int:
    return next((len(indent_of(lines[row]).expandtabs(4)) for row in rows if not is_blank(lines[row])), 0)


def _fused(hunk: Hunk, index: FileIndex, loosest: str) -> list[Fit]:
    """A hunk that runs several places together is cut in the context between its changes, into as few parts as can be.

    Each part must have a single place, in order; all ways to cut that fit must ask for the same.
    """
    bounds = [0, *_cuts(hunk.lines), len(hunk.lines)]
    places: dict[tuple[int, int], Rows] = {}

    def rows_of(first: int, last: int) -> Rows:
        """The one place of the lines from one bound to another; none where they have several, or say nothing."""
        if (first, last) not in places:
            old = [line for line in hunk.lines[first:last] if line.kind != ADD]
            some = [] if all(is_blank(line.text) for line in old) else _places(old, index, loosest)
            places[first, last] = some[0] if len(some) == 1 else ()
        return places[first, last]

    ways: list[tuple[int, Rows]] = [(0, ())]  # up to which bound, and the rows so far
    for _ in range(_MOST_PARTS):
        longer = [
            (last, rows + part)
            for first, rows in ways
            for last in bounds
            if last > first
            and (first or last < len(hunk.lines))
            and (part := rows_of(first, last))
            and (not rows or rows[-1] < part[0])
        ]
        found: dict[object, Fit] = {}
        for last, rows in longer:
            if last == len(hunk.lines):
                fit = Fit(hunk, rows, SPLIT)
                found.setdefault(tuple(fit.changes()), fit)
        if found or len(longer) > _MOST_CHAINS:
            return list(found.values()) if len(longer) <= _MOST_CHAINS else []
        ways = longer
    return []


def _cuts(lines: Sequence[Line]) -> list[int]:
    """The positions inside a run of context with changes before and after it: each half keeps a line."""
    changed = [at for at, line in enumerate(lines) if line.kind in {ADD, DELETE}]
    if not changed:
        return []
    return [
        at
        for at in range(changed[0] + 1, changed[-1] + 1)
        if lines[at].kind == CONTEXT and lines[at - 1].kind == CONTEXT
    ][:_MOST]
