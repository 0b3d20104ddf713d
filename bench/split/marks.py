"""Units and seams, the byte ranges of a file that a cut may damage, and the verdict on a cut."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["inside", "orphan", "head", "close"]
NOTHING = re.compile(rb"")
_REST_IS_BLANK = re.compile(rb"[ \t\f]*(?:\r\n|\n|\r)")
_INDENT = b" \t\f"


@dataclass(frozen=True)
class Item:
    """An element of a container, as parsed. One that `sticks` (a comment, an attribute) belongs to the next item: at
    any distance if `far`, else if no blank line is between. A `vague` one may be cut, because the parser did not
    understand it."""

    start: int
    end: int
    label: str = ""
    definition: bool = False
    sticks: Kind | None = None
    far: bool = False
    vague: bool = False


@dataclass(frozen=True)
class Unit:
    """A range to keep whole: from the line on which its comments begin to the end of its last line."""

    start: int
    end: int
    label: str
    definition: bool = False


@dataclass(frozen=True)
class Seam:
    """A cut from `first` to `last`, inclusive, is bad, unless the head (`sizes[0]`) alone exceeds the target, or the
    first item of the body (`sizes[1]`) fits alone but not with the head."""

    first: int
    last: int
    kind: Kind
    label: str
    sizes: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Verdict:
    """`kinds` is empty for a good cut; `definition` means inside a definition that would have fitted."""

    offset: int
    kinds: tuple[Kind, ...]
    label: str = ""
    definition: bool = False


@dataclass
class Marks:
    """The units and seams of `text`. `trailing` matches what may follow an item on its line and belongs to it."""

    text: bytes
    trailing: re.Pattern[bytes]
    units: list[Unit] = field(default_factory=list)
    seams: list[Seam] = field(default_factory=list)
    _ends: dict[int, int] = field(default_factory=dict)

    def start_of(self, offset: int) -> int:
        """The start of the line if only blanks precede `offset` on it, else `offset`."""
        line = max(self.text.rfind(b"\n", 0, offset), self.text.rfind(b"\r", 0, offset)) + 1
        return line if not self.text[line:offset].strip(_INDENT) else offset

    def end_of(self, offset: int) -> int:
        """The offset behind the separator, trailing comment and line end."""
        while offset and self.text[offset - 1 : offset] in (b"\n", b"\r"):
            offset -= 1  # some nodes include their line end
        match = self.trailing.match(self.text, offset)
        if match:
            offset = match.end()
        rest = _REST_IS_BLANK.match(self.text, offset)
        return rest.end() if rest else offset

    def unit(self, start: int, end: int, label: str, definition: bool = False) -> None:
        self.units.append(Unit(self.start_of(start), self.end_of(end), label, definition))

    def seam(self, first: int, last: int, kind: Kind, label: str, sizes: tuple[int, int] = (0, 0)) -> None:
        if first <= last:
            self.seams.append(Seam(first, last, kind, label, sizes))

    def container(
        self,
        items: Sequence[Item],
        head: int | None = None,
        close: tuple[int, int] | None = None,
        label: str = "",
    ) -> None:
        """Mark the contents of a pair of brackets or of a file. `head` is the start of its head, `close` the range of
        its closing bracket."""
        groups = list(self._groups(items))
        for start, end, item in groups:
            if not item.vague:
                self.units.append(Unit(start, end, item.label, item.definition))
        if not groups:
            return
        first, last = groups[0], groups[-1]
        if head is not None:
            begin = self.start_of(head)
            self.seam(begin + 1, first[0], "head", label, (first[0] - begin, first[1] - first[0]))
        if close is not None:
            self.seam(min(last[1], close[0]), close[1] - 1, "close", label)

    def _groups(self, items: Sequence[Item]) -> Iterator[tuple[int, int, Item]]:
        """Yield (start, end, item) for each item, starting with what sticks to it."""
        self._ends = {}
        begin: int | None = None
        for number, item in enumerate(items):
            start, end = self.start_of(item.start), self.end_of(item.end)
            if begin is None:
                begin = start
            follower = items[number + 1] if number + 1 < len(items) else None
            if item.sticks and follower and (item.far or self._adjacent(item, follower)):
                after = self.start_of(follower.start)
                self.seam(start + 1, min(end, after) - 1, item.sticks, follower.label, (end - start, 0))
                whole = self._run(items, number) - begin if follower.sticks == item.sticks else 0
                self.seam(min(end, after), after, item.sticks, follower.label, (whole, 0))
                continue
            yield begin, end, item
            begin = None

    def _run(self, items: Sequence[Item], number: int) -> int:
        """The end of the run of comments with `items[number]`; a run that does not fit has to be cut."""
        if number not in self._ends:
            last = number
            while (
                last + 1 < len(items)
                and items[last + 1].sticks
                and self._adjacent(items[last], items[last + 1])
            ):
                last += 1
            self._ends = dict.fromkeys(range(number, last + 1), self.end_of(items[last].end))
        return self._ends[number]

    def _adjacent(self, comment: Item, follower: Item) -> bool:
        between = self.text[comment.end : follower.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = between.count(b"\n") + (self.text[comment.end - 1 : comment.end] == b"\n")
        if between.strip(b" \t\f\n,;") or lines > 1:
            return False
        indent = self._column(comment.start), self._column(follower.start)
        return lines == 0 or indent[0] <= indent[1]

    def _column(self, offset: int) -> int:
        return len(self.text[self.text.rfind(b"\n", 0, offset) + 1 : offset].expandtabs(8))


def with_comments(items: list[Item], comments: Sequence[Item], first: int, last: int = 0) -> list[Item]:
    """Merge the items of a container with the comments from `first` on, and behind the last item up to `last`."""
    every: list[Item] = []
    at = _first_at(comments, first)
    for item in items:
        while at < len(comments) and comments[at].start < item.start:
            every.append(comments[at])
            at += 1
        every.append(item)
        at = _first_at(comments, item.end)
    return [*every, *comments[at : max(at, _first_at(comments, last))]]


def _first_at(items: Sequence[Item], offset: int) -> int:
    return bisect_left(items, offset, key=lambda item: item.start)


def settled(text: bytes, cut: int) -> int:
    """The start of the line for a cut in its indentation; of the next line for one in trailing blanks; else `cut`."""
    line = max(text.rfind(b"\n", 0, cut), text.rfind(b"\r", 0, cut)) + 1
    if not text[line:cut].strip(_INDENT):
        return line
    rest = _REST_IS_BLANK.match(text, cut)
    return rest.end() if rest else cut


def judged(marks: Marks, cuts: Sequence[int], target: int) -> list[Verdict]:
    """The verdict on each of `cuts` (offsets, ascending), for segments of at most `target` bytes."""
    at = [settled(marks.text, cut) for cut in cuts]
    kinds: list[dict[Kind, str]] = [{} for _ in cuts]
    definition = [False] * len(cuts)
    for unit in marks.units:
        if unit.end - unit.start <= target:
            for number in range(bisect_right(at, unit.start), bisect_left(at, unit.end)):
                kinds[number]["inside"] = unit.label
                definition[number] |= unit.definition
    for seam in marks.seams:
        head, body = seam.sizes
        if head > target or (body <= target < head + body):
            continue
        for number in range(bisect_left(at, seam.first), bisect_right(at, seam.last)):
            kinds[number][seam.kind] = seam.label
    return [
        Verdict(cut, tuple(labels), "; ".join(labels.values()), inside)
        for cut, labels, inside in zip(cuts, kinds, definition, strict=True)
    ]
