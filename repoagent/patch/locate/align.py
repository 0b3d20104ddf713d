"""Loose alignment: deleted lines must be there; context may differ a little, be too little or too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from repoagent.dataclass import dataclass
from repoagent.patch.hunk import ADD, CONTEXT, DELETE, Hunk
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.held import SLACK, sure, value_of
from repoagent.patch.locate.match import FUZZY, LEVELS, WHITESPACE, FileIndex, same_literals, weight
from repoagent.patch.problems import Misfit

_SIMILAR = 0.6  # of two lines of context: 2 x common characters in order / both lengths
_MARGIN = 0.85  # a runner-up that scores as much of the best makes the place ambiguous
_LOCAL = 0.5  # of what holds a change in place must be lost without that
_LONGEST = 150
_WINDOWS = 4
_DROP, _SKIP = -0.3, -0.2
_BESIDE = 0.01  # more for a line beside a change: of two blank lines the file's one is taken for that


@dataclass(frozen=True)
class _Item:
    """A line that the file should hold. `firm`: as it is, it can't be left out; `fixed`: no line of the file may be
    skipped right before it."""

    text: str
    key: str
    firm: bool
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
    if not 0 < len(items) <= _LONGEST or any(item.firm and item.key not in places for item in items):
        return []
    found: list[tuple[_Alignment, Fit, list[list[float | None]], range]] = []
    windows = list(_windows(items, index))
    for window in windows:
        gains = [_gains(item, window, index) for item in items]
        if found and _bound(gains) < _MARGIN * max(entry[0].score for entry in found):
            continue
        best = _align(items, keys, window, gains, frozenset())
        if best is not None:
            found.append((best, Fit(hunk, best.rows, FUZZY), gains, window))
    if not found:
        return []
    best, fit, gains, window = max(found, key=lambda entry: entry[0].score)
    if not sure(fit, keys):
        return []
    elsewhere = {
        other: best.score - alignment.score
        for alignment, other, _, _ in found
        if alignment.score >= _MARGIN * best.score
    }
    if len(windows) > 1:
        elsewhere |= _evenly(hunk, items, index, windows, windows.index(window))
    rivals = {
        Fit(hunk, runner.rows, FUZZY): best.score - runner.score
        for pins in _pins(items, best)
        if (runner := _align(items, keys, window, gains, pins)) is not None
        and _rivals(best, runner, sum(gains[number][row - window.start] or 0.0 for number, row in pins))
    }
    effects = {
        _effect(other): replace(other, behind=behind) for other, behind in (rivals | elsewhere).items()
    }
    return [fit, *(other for effect, other in effects.items() if effect != _effect(fit))]


def _evenly(
    hunk: Hunk, items: Sequence[_Item], index: FileIndex, windows: Sequence[range], chosen: int
) -> dict[Fit, float]:
    """The places that come close to the `chosen` one by a measure that is the same for all: a line counts as like
    another whether its own text stands near there or not. And how much each is behind."""
    keys = index.keys(WHITESPACE)
    scores: dict[int, _Alignment] = {}
    for number, window in sorted(enumerate(windows), key=lambda entry: entry[0] != chosen):
        gains = [_gains(item, window, index, even=True) for item in items]
        if scores and _bound(gains) < _MARGIN * scores[chosen].score:
            continue
        alignment = _align(items, keys, window, gains, frozenset())
        if alignment is not None:
            scores[number] = alignment
    best = scores[chosen].score
    return {
        Fit(hunk, alignment.rows, FUZZY): best - alignment.score
        for number, alignment in scores.items()
        if number != chosen and alignment.score >= _MARGIN * best
    }


def _rivals(best: _Alignment, runner: _Alignment, at_stake: float) -> bool:
    """Does an alignment that does without the best one's holds of a change come too close to it? `at_stake` is
    what these holds gain. One that leaves lines of the hunk out is no rival of one that has them all."""
    if None not in best.rows and None in runner.rows:
        return False
    return best.score - runner.score < _LOCAL * at_stake


def _bound(gains: Sequence[Sequence[float | None]]) -> float:
    """What no alignment in a window can score more than: each line at its best, whatever the order."""
    return sum(max((gain for gain in row if gain is not None), default=0.0) for row in gains)


def _effect(fit: Fit) -> object:
    try:
        return tuple(fit.changes())
    except Misfit:
        return fit.rows


def _items(hunk: Hunk) -> list[_Item]:
    items: list[_Item] = []
    changed = True
    kinds = [CONTEXT, *(line.kind for line in hunk.lines), CONTEXT]
    for number, line in enumerate(hunk.lines):
        if line.kind == ADD:
            changed = True
            continue
        key = LEVELS[WHITESPACE](line.text)
        gone = line.kind == DELETE
        value = value_of(line.text) + _BESIDE * (kinds[number : number + 3] != [CONTEXT] * 3)
        items.append(_Item(line.text, key, gone or line.held, value, changed or gone))
        changed = gone
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
    gains: Sequence[Sequence[float | None]],
    forbidden: frozenset[tuple[int, int]],
) -> _Alignment | None:
    """The alignment with the best score in the rows of `window`, or None.

    Dynamic programming over (item, row), from the end; no pair in `forbidden` is matched.
    """
    worst = float("-inf")
    low, width = window.start, len(window)
    ahead = [0.0] * (width + 1)
    choices: list[list[str]] = []
    skips = [_skip(keys[row]) for row in window]
    for number in range(len(items) - 1, -1, -1):
        item, gained = items[number], list(gains[number])
        for other, row in forbidden:
            if other == number:
                gained[row - low] = None
        drop = worst if item.firm else _DROP * item.value
        here = [worst] * (width + 1)
        choice = [""] * (width + 1)
        here[width] = ahead[width] + drop
        choice[width] = "" if item.firm else "drop"
        for column in range(width - 1, -1, -1):
            best, what = ahead[column] + drop, "drop"
            gain = gained[column]
            if gain is not None and ahead[column + 1] + gain > best:
                best, what = ahead[column + 1] + gain, "match"
            if not item.fixed and here[column + 1] + skips[column] > best:
                best, what = here[column + 1] + skips[column], "skip"
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


def _gains(item: _Item, window: range, index: FileIndex, *, even: bool = False) -> list[float | None]:
    """How much a hunk's line gains from standing for each line of the window, up to its value; None where they
    can't be the same line. What stands there as it is, is not taken for a line that is only like it, unless windows
    are compared (`even`): it would count against the one that it stands in."""
    keys = index.keys(WHITESPACE)
    like = not item.firm and weight(item.key) >= 3
    like = like and (even or item.key not in keys[window.start : window.stop])
    alike = _likeness_to(item.key) if like else None
    return [_gain(item, index.lines[row], keys[row], alike) for row in window]


def _gain(item: _Item, line: str, key: str, alike: Callable[[str], float] | None) -> float | None:
    if item.key == key:
        if item.firm and not same_literals(item.text, line):
            return None
        return item.value if item.text == line else 0.95 * item.value
    if alike is None or not key:
        return None
    ratio = alike(key)
    return 0.7 * ratio * item.value if ratio else None


def _likeness_to(text: str) -> Callable[[str], float]:
    """The likeness of a line to `text`, from `_SIMILAR` to 1; 0 below."""
    from rapidfuzz.distance import Indel

    return partial(Indel.normalized_similarity, text, score_cutoff=_SIMILAR)
