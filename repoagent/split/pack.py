"""Segments, and the selection of cuts among candidates: the cheapest packing, found by dynamic programming."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from repoagent.dataclass import dataclass
from repoagent.syntax.symbol import Symbol

TARGET_BYTES = 16_384

# Why a segment begins at its offset: the start of the file; a node of the syntax tree; a node in a broken part of the
# tree or in an embedded language; a paragraph or a less indented line in a file without a grammar; any line, if nothing
# else fits; an item after another on its line; an earlier cut (refresh).
Boundary = Literal["start", "node", "embedded", "blank", "indent", "line", "byte", "kept"]


@dataclass(frozen=True)
class Segment:
    """A segment and its file ("" without one). In order, the segments make up the whole source.

    `start` and `end` (exclusive) are byte offsets. Lines count from 1, and the last one is included; two segments share
    a line only if it was cut. `scope` names the symbols that begin earlier and contain the first line, outermost first;
    `symbols` begin in the segment. An `oversize` segment is longer than the target because it cannot be cut.

    `based_on` is "" unless both the file and its part of the source were edited; then it is the hash of `kept_base`,
    the text that the file is based on. Only such a segment may be empty, if its part of the source was removed.
    """

    file: str
    start: int
    end: int
    first_line: int
    last_line: int
    boundary: Boundary
    sha256: str
    scope: tuple[str, ...]
    oversize: bool
    symbols: tuple[Symbol, ...]
    based_on: str = ""

    @property
    def kept_base(self) -> str:
        """The name of the file with the text that the segment's file is based on, if `based_on` is set."""
        return f"{self.file}.base"


# An offset where the text may be cut, the cost of that cut, and the reason. A natural boundary costs 0 to 5, a poor one
# up to 10; a higher cost separates parts of one unit. One more segment costs 1.
Candidate = tuple[int, float, Boundary]

FAIR: Final = 10.0  # a cut of an earlier split is kept up to this cost
_KEPT: Final = 4.0  # the bonus for such a cut
_NEAR: Final = 24  # of candidates closer to each other than a segment divided by this, only the best remains
_APART: Final = 6  # unless that would leave a gap of a segment divided by this
_OVERSIZE: Final = 1e6
_STEPS: Final = 64


def pack_segments(
    candidates: Sequence[Candidate], first: int, last: int, limit: int, kept: Collection[int] = ()
) -> list[Candidate]:
    """The candidates at which to cut the text from `first` to `last`. Takes linear time.

    `candidates` must be in text order, each offset once. No segment is longer than `limit` unless two neighboring
    candidates are farther apart. `kept` has the offsets of an earlier split's cuts, which are preferred if they are
    still good.
    """
    if last - first <= limit or not candidates:
        return []
    if kept:
        candidates = [
            (offset, min(cost, _KEPT) - _KEPT, why)
            if cost <= FAIR and offset in kept
            else (offset, cost, why)
            for offset, cost, why in candidates
        ]
    chosen = prune_candidates(candidates, first, last, limit)
    offsets = [first, *(candidate[0] for candidate in chosen), last]
    fill = []  # the cost of a segment by its size in steps of the limit: 1, and more if it is small
    for step in range(_STEPS + 1):
        size = step / _STEPS
        fill.append(1 + max(0.0, 0.6 - size) * 1.5 + (size < 1 / 4) + 3.5 * (size <= 1 / 8))
    scale = _STEPS / limit
    best = [0.0] * len(offsets)
    before = [0] * len(offsets)
    low = 0
    for number in range(1, len(offsets)):
        offset = offsets[number]
        while offset - offsets[low] > limit and low < number - 1:
            low += 1
        least, which = 1e18, low
        if offset - offsets[low] > limit:
            least = best[low] + _OVERSIZE
        else:
            for earlier in range(low, number):
                total = best[earlier] + fill[int((offset - offsets[earlier]) * scale)]
                if total < least:
                    least, which = total, earlier
        best[number] = least + (chosen[number - 1][1] if number <= len(chosen) else 0.0)
        before[number] = which
    cuts: list[Candidate] = []
    at = before[-1]
    while at:
        cuts.append(chosen[at - 1])
        at = before[at]
    cuts.reverse()
    return cuts


def prune_candidates(candidates: Sequence[Candidate], first: int, last: int, limit: int) -> list[Candidate]:
    """The candidates, except those that are close to a better one: at most a few dozen per segment."""
    near, apart, wide = limit // _NEAR, limit // _APART, limit // 4
    chosen: list[Candidate] = []
    previous = seen = first  # the offset chosen last, and that of the previous candidate
    waiting: Candidate | None = None  # the best candidate since the one chosen last
    latest: Candidate | None = None
    for candidate in candidates:
        offset = candidate[0]
        if offset - seen > wide:  # keep both ends of a large gap, or a segment around it would be too long
            if waiting is not None:
                chosen.append(waiting)
                if latest is not None and latest is not waiting:
                    chosen.append(latest)
            chosen.append(candidate)
            previous, waiting = offset, None
        elif waiting is None:
            waiting = candidate
        elif offset - waiting[0] > near or offset - previous > apart:
            chosen.append(waiting)
            previous, waiting = waiting[0], candidate
        elif candidate[1] < waiting[1]:
            waiting = candidate
        seen, latest = offset, candidate
    if waiting is not None:
        chosen.append(waiting)
        if latest is not None and latest is not waiting and last - seen > wide:
            chosen.append(latest)
    return chosen
