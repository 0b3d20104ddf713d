"""Loose alignment: deleted lines must be there; context may differ a little, be too little or too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from repoagent.patch.fit import Fit
from repoagent.patch.held import SLACK, sure, value_of
from repoagent.patch.hunk import ADD, CONTEXT, DELETE, Hunk
from repoagent.patch.match import FUZZY, LEVELS, WHITESPACE, FileIndex, is_blank, same_literals, weight
from repoagent.patch.problems import Misfit

_SIMILAR = 0.6  # of two lines of context, by difflib's ratio
_MARGIN = 0.85  # a runner-up that scores as much of the best makes the place ambiguous
_LONGEST = 150
_WINDOWS = 4
_DROP, _SKIP = -0.3, -0.2


@dataclass(frozen=True)
class _Item:
    """A line that the file should hold. `fixed`: no line of the file may be skipped right before it."""

    text: str
    key: str
    kind: str
    value: float
    fixed: bool


@dataclass(frozen=True)
class _Alignment:
    score: float
    rows: tuple[int | None, ...]


def aligned(hunk: Hunk, index: FileIndex) -> list[Fit]:
    """The best loose place of a hunk; more than one when a runner-up is close, none when too little fits."""
    items = _items(hunk)
    keys = index.keys(WHITESPACE)
    places = index.places(WHITESPACE)
    if not 0 < len(items) <= _LONGEST or any(
        item.kind == DELETE and item.key not in places for item in items
    ):
        return []
    similar = _Similarity(index)
    found: dict[object, tuple[float, Fit]] = {}
    for window in _windows(items, index):
        best = _align(items, keys, window, similar, frozenset())
        if best is None:
            continue
        runners = (_align(items, keys, window, similar, pins) for pins in _pins(items, best))
        for alignment in [best, *(runner for runner in runners if runner is not None)]:
            fit = Fit(hunk, alignment.rows, FUZZY)
            effect = _effect(fit)
            if alignment.score > found.get(effect, (0.0, fit))[0]:
                found[effect] = alignment.score, fit
    ranked = sorted(found.values(), key=lambda entry: -entry[0])
    if not ranked or not sure(ranked[0][1], keys):
        return []
    return [fit for score, fit in ranked if score >= _MARGIN * ranked[0][0]]


def _effect(fit: Fit) -> object:
    try:
        return tuple(fit.changes())
    except Misfit:
        return fit.rows


def _items(hunk: Hunk) -> list[_Item]:
    items: list[_Item] = []
    changed = True
    for line in hunk.lines:
        if line.kind == ADD:
            changed = True
            continue
        key = LEVELS[WHITESPACE](line.text)
        items.append(_Item(line.text, key, line.kind, value_of(line.text), changed or line.kind == DELETE))
        changed = line.kind == DELETE
    return items


def _windows(items: Sequence[_Item], index: FileIndex) -> Iterator[range]:
    """The stretches of the file where most of the hunk's rarer lines stand as far apart as in the hunk."""
    votes: Counter[int] = Counter()
    for offset, item in enumerate(items):
        rows = index.places(WHITESPACE).get(item.key, [])
        if item.key and len(rows) <= 60:
            for row in rows:
                votes[row - offset] += weight(item.text) + 1
    taken: list[int] = []
    for start, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        if all(abs(start - other) > SLACK for other in taken):
            taken.append(start)
            yield range(max(0, start - SLACK), min(len(index.lines), start + len(items) + SLACK))
        if len(taken) == _WINDOWS:
            return


def _align(
    items: Sequence[_Item],
    keys: Sequence[str],
    window: range,
    similar: _Similarity,
    forbidden: frozenset[tuple[int, int]],
) -> _Alignment | None:
    """The alignment with the best score in the rows of `window`, or None.

    Dynamic programming over (item, row), from the end; no pair in `forbidden` is matched.
    """
    worst = float("-inf")
    low, width = window.start, len(window)
    ahead = [0.0] * (width + 1)
    choices: list[list[str]] = []
    for number in range(len(items) - 1, -1, -1):
        item = items[number]
        here = [worst] * (width + 1)
        choice = [""] * (width + 1)
        for column in range(width, -1, -1):
            best, what = worst, ""
            if item.kind == CONTEXT:
                best, what = ahead[column] + _DROP * item.value, "drop"
            if column < width:
                row = low + column
                gain = similar.gain(item, row) if (number, row) not in forbidden else None
                if gain is not None and ahead[column + 1] + gain > best:
                    best, what = ahead[column + 1] + gain, "match"
                if not item.fixed and here[column + 1] + _skip(keys[row]) > best:
                    best, what = here[column + 1] + _skip(keys[row]), "skip"
            here[column], choice[column] = best, what
        ahead = here
        choices.append(choice)
    choices.reverse()
    start = max(range(width + 1), key=lambda column: ahead[column])
    return _Alignment(ahead[start], _walk(choices, start, low)) if ahead[start] > 0 else None


def _skip(key: str) -> float:
    return _SKIP if key else _SKIP / 4


def _walk(choices: Sequence[Sequence[str]], column: int, low: int) -> tuple[int | None, ...]:
    rows: list[int | None] = []
    while len(rows) < len(choices):
        what = choices[len(rows)][column]
        if what == "match":
            rows.append(low + column)
        elif what == "drop":
            rows.append(None)
        column += what != "drop"
    return tuple(rows)


def _pins(items: Sequence[_Item], best: _Alignment) -> Iterator[frozenset[tuple[int, int]]]:
    """For each run of lines that holds changes in place: its matches; a runner-up must do without them."""
    run: set[tuple[int, int]] = set()
    for number, (item, row) in enumerate(zip(items, best.rows, strict=True)):
        following = number + 1 < len(items) and items[number + 1].fixed
        if row is not None and (item.fixed or following):
            run.add((number, row))
        if not following and run:
            yield frozenset(run)
            run = set()
    if run:
        yield frozenset(run)


class _Similarity:
    """How much a hunk's line gains from standing for a line of the file, remembered."""

    def __init__(self, index: FileIndex) -> None:
        self._index = index
        self._keys = index.keys(WHITESPACE)
        self._known: dict[tuple[str, int], float | None] = {}

    def gain(self, item: _Item, row: int) -> float | None:
        """Up to the item's value; None when they can't be the same line."""
        if item.key == self._keys[row]:
            if item.kind == DELETE and not same_literals(item.text, self._index.lines[row]):
                return None
            return item.value if item.text == self._index.lines[row] else 0.95 * item.value
        if item.kind == DELETE or not item.key or not self._keys[row]:
            return None
        pair = (item.key, row)
        if pair not in self._known:
            self._known[pair] = _ratio(item.key, self._keys[row])
        ratio = self._known[pair]
        return None if ratio is None else 0.7 * ratio * item.value


def _ratio(one: str, other: str) -> float | None:
    """The similarity of two lines from `_SIMILAR` to 1; None below. Lines of no weight are never similar."""
    if (
        weight(one) < 3
        or is_blank(other)
        or 2 * min(len(one), len(other)) < _SIMILAR * (len(one) + len(other))
    ):
        return None
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if matcher.quick_ratio() < _SIMILAR:
        return None
    ratio = matcher.ratio()
    return ratio if ratio >= _SIMILAR else None
