"""How many segments a local edit changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

LINES = 20  # at most so many are inserted, deleted or replaced


@dataclass(frozen=True)
class Edit:
    """`data[start:end]` becomes `new`."""

    start: int
    end: int
    new: bytes

    def applied(self, data: bytes) -> bytes:
        return data[: self.start] + self.new + data[self.end :]

    def carried(self, cuts: Sequence[int]) -> list[int]:
        """Offsets of the old text in the new one: those before the edit as they are, those behind it moved."""
        moved = len(self.new) - (self.end - self.start)
        return [
            cut if cut <= self.start else cut + moved for cut in cuts if cut <= self.start or cut >= self.end
        ]


def edits(data: bytes, count: int, seed: int) -> list[Edit]:
    """Insertions (a copy of the lines that follow), deletions and replacements (by lines from elsewhere), in turn."""
    chance = random.Random(f"{seed} {len(data)}")
    lines = data.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    found = []
    for number in range(count):
        size = min(chance.randint(1, LINES), len(lines))
        first = chance.randrange(len(lines) - size + 1)
        start, end = starts[first], starts[first + size]
        if number % 3 == 0:
            found.append(Edit(start, start, data[start:end]))
        elif number % 3 == 1:
            found.append(Edit(start, end, b""))
        else:
            other = chance.randrange(len(lines) - size + 1)
            found.append(Edit(start, end, data[starts[other] : starts[other + size]]))
    return [edit for edit in found if edit.applied(data) != data]


def changed(
    data: bytes, changes: Sequence[Edit], split: Callable[[bytes, Sequence[int]], list[bytes]], keep: bool
) -> list[int]:
    """For each edit: the segments of the new text that are no segment of the old one. `split` takes a text and the
    offsets at which it is to be cut if that is still good; with `keep` it is given the old ones."""
    before = split(data, ())
    cuts = list(accumulate(map(len, before)))[:-1]
    old = set(before)
    return [
        sum(piece not in old for piece in split(edit.applied(data), edit.carried(cuts) if keep else ()))
        for edit in changes
    ]
