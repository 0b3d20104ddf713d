"""Hunks in parts: with code left out between (`...`), or with two places of the file run together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    chains = list(_chains([_places(old, index, loosest) for old in olds if old], index))
    if len(chains) > 1:
        chains = [chain for chain in chains if _in_one_block(chain, index.lines)] or chains
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
            return [tuple(range(start, start + len(old))) for start in found[:_MOST]]
        if level == loosest:
            break
    return []


def _chains(options: Sequence[Sequence[Rows]], index: FileIndex) -> Iterator[tuple[Rows, ...]]:
    """All ways to take one place of each part, each after the one before it; at most `_MOST`."""
    if not all(options) or not options:
        return
    work: list[tuple[Rows, ...]] = [(place,) for place in reversed(options[0])]
    count = 0
    while work and count < _MOST:
        chain = work.pop()
        if len(chain) == len(options):
            count += 1
            yield chain
            continue
        after = chain[-1][-1]
        work += [(*chain, place) for place in reversed(options[len(chain)]) if place[0] > after]


def _in_one_block(chain: Sequence[Rows], lines: Sequence[str]) -> bool:
    """Does no line between the parts end the block that the part before is in?"""
    for before, after in pairwise(chain):
        outer, inner = _depth(lines, before[::-1]), _depth(lines, after)
        least = outer + 1 if inner > outer else min(outer, inner)
        between = (line for line in lines[before[-1] + 1 : after[0]] if not is_blank(line))
        if any(len(indent_of(line).expandtabs(4)) < least for line in between):
            return False
    return True


def _depth(lines: Sequence[str], rows: Sequence[int]) -> int:
    return next((len(indent_of(lines[row]).expandtabs(4)) for row in rows if not is_blank(lines[row])), 0)


def _fused(hunk: Hunk, index: FileIndex, loosest: str) -> list[Fit]:
    """A hunk that runs two places together is cut in the context between two of its changes.

    Both halves must have a single place each, in order; all cuts that fit must ask for the same.
    """
    found: dict[object, Fit] = {}
    for cut in _cuts(hunk.lines):
        halves = [
            [line for line in part if line.kind != ADD] for part in (hunk.lines[:cut], hunk.lines[cut:])
        ]
        if any(all(is_blank(line.text) for line in half) for half in halves):
            continue
        places = [_places(half, index, loosest) for half in halves]
        if [len(some) for some in places] == [1, 1] and places[0][0][-1] < places[1][0][0]:
            fit = Fit(hunk, (*places[0][0], *places[1][0]), SPLIT)
            found.setdefault(tuple(fit.changes()), fit)
    return list(found.values())


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
