"""Loose alignment: deleted lines must exist; context may be slightly wrong, missing or extra.

Also hunks in parts: with omitted code (`...`), or with two places of the file run together. `is_confident` decides
whether an alignment is good enough to change a file."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import (
    ELISION,
    FUZZY,
    LEVELS,
    SPLIT,
    WHITESPACE,
    Change,
    FileIndex,
    Match,
    find_old,
    indent_of,
    is_blank,
    same_literals,
    weight,
)
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, Line, is_elision

SLACK = 12  # lines that may be more or fewer than expected
_ENOUGH = 0.5  # of the hunk's value must be matched without fuzz


def value_of(text: str) -> float:
    """How much finding a line of a hunk counts: from 0.1 for a blank line to 1.3."""
    return 0.1 if is_blank(text) else 0.3 + weight(text) / 20


def is_confident(match: Match, keys: Sequence[str]) -> bool:
    """Whether half of the hunk's value matches without fuzz, and every addition is anchored.

    `keys` are the file's lines without white space.
    """
    old = match.hunk.old
    firm = {
        number
        for number, row in enumerate(match.rows)
        if row is not None and keys[row] == LEVELS[WHITESPACE](old[number].text)
    }
    if sum(value_of(old[number].text) for number in firm) < _ENOUGH * sum(
        value_of(line.text) for line in old
    ):
        return False
    try:
        changes = match.changes()
    except PatchError:
        return False
    if any(one == other for one, other in pairwise((change.start, change.end) for change in changes)):
        return False  # a lost line stands between two additions, which may be a part of them
    return all(
        not change.added
        or _is_anchored(change, [number for number in beside if 0 <= number < len(old)], match, firm, keys)
        for change, beside in zip(changes, _neighbours(match.hunk), strict=True)
    )


def _neighbours(hunk: Hunk) -> Iterator[tuple[int, int]]:
    """For each run of changes: positions in `hunk.old` right before and right after it."""
    position = 0
    for context, run in groupby(hunk.lines, key=lambda line: line.kind == CONTEXT):
        olds = sum(line.kind != ADD for line in run)
        if not context:
            yield position - 1, position + olds
        position += olds


def _is_anchored(
    change: Change, beside: Sequence[int], match: Match, firm: set[int], keys: Sequence[str]
) -> bool:
    """Is this the one place for the added lines, and are they not there already?

    A neighbour that stands a little off leaves it open on which side of the lines between they belong.
    Where nothing is deleted, a neighbour must match without fuzz, and a light one (a bracket) not alone.
    """
    texts = {number: match.hunk.old[number].text for number in beside}
    for number, text in texts.items():
        reach = SLACK if weight(text) > 1 else 2
        if (
            number not in firm
            and LEVELS[WHITESPACE](text) in keys[max(0, change.start - reach) : change.end + reach]
        ):
            return False
    if (
        change.start < change.end
        or _between(beside, match, firm)
        or _at_edge(change, beside, match, firm, keys)
    ):
        return True
    there = {keys[row] for row in (change.start - 1, change.end) if 0 <= row < len(keys)}
    if any(LEVELS[WHITESPACE](line.text) in there for line in change.added if weight(line.text) > 3):
        return False
    matched = [number for number in beside if match.rows[number] is not None]
    return any(number in firm and (weight(texts[number]) > 1 or len(matched) == 2) for number in matched)


def _between(beside: Sequence[int], match: Match, firm: set[int]) -> bool:
    """Do the lines above and below an addition stand next to each other in the file, and is one of them telling?"""
    if len(beside) < 2 or not firm.issuperset(beside):
        return False
    above, below = (match.rows[number] for number in beside)
    telling = any(weight(match.hunk.old[number].text) > 1 for number in beside)
    return telling and above is not None and below == above + 1


def _at_edge(
    change: Change, beside: Sequence[int], match: Match, firm: set[int], keys: Sequence[str]
) -> bool:
    """Is it the beginning or the end of both the hunk and the file, next to a line that is there?"""
    edges = {0: 0, len(keys): len(match.hunk.old) - 1}
    return change.start in edges and list(beside) == [edges[change.start]] and beside[0] in firm


_SIMILAR = 0.6  # of two lines of context: 2 x common characters in order / both lengths
_MARGIN = 0.85  # a runner-up that scores as much of the best makes the place ambiguous
_LOCAL = 0.5  # of what holds a change in place must be lost without that
_LONGEST = 150
_WINDOWS = 4
_DROP, _SKIP = -0.3, -0.2
_BESIDE = 0.01  # more for a line next to a change: of two blank lines the file's one is taken for that


@dataclass(frozen=True)
class _Item:
    """A line that the file should hold. `firm`: as it is, it cannot be left out; `fixed`: no line of the file may be
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


def aligned(hunk: Hunk, index: FileIndex) -> list[Match]:
    """The best loose place of a hunk; more than one when a runner-up is close, none when too little fits."""
    items = _items(hunk)
    keys = index.keys(WHITESPACE)
    places = index.places(WHITESPACE)
    if not 0 < len(items) <= _LONGEST or any(item.firm and item.key not in places for item in items):
        return []
    found: list[tuple[_Alignment, Match, list[list[float | None]], range]] = []
    windows = list(_windows(items, index))
    for window in windows:
        gains = [_gains(item, window, index) for item in items]
        if found and _bound(gains) < _MARGIN * max(entry[0].score for entry in found):
            continue
        best = _align(items, keys, window, gains, frozenset())
        if best is not None:
            found.append((best, Match(hunk, best.rows, FUZZY), gains, window))
    if not found:
        return []
    best, match, gains, window = max(found, key=lambda entry: entry[0].score)
    if not is_confident(match, keys):
        return []
    elsewhere = {
        other: best.score - alignment.score
        for alignment, other, _, _ in found
        if alignment.score >= _MARGIN * best.score
    }
    if len(windows) > 1:
        elsewhere |= _evenly(hunk, items, index, windows, windows.index(window))
    rivals = {
        Match(hunk, runner.rows, FUZZY): best.score - runner.score
        for pins in _pins(items, best)
        if (runner := _align(items, keys, window, gains, pins)) is not None
        and _rivals(best, runner, sum(gains[number][row - window.start] or 0.0 for number, row in pins))
    }
    effects = {
        _effect(other): replace(other, behind=behind) for other, behind in (rivals | elsewhere).items()
    }
    return [match, *(other for effect, other in effects.items() if effect != _effect(match))]


def _evenly(
    hunk: Hunk, items: Sequence[_Item], index: FileIndex, windows: Sequence[range], chosen: int
) -> dict[Match, float]:
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
        Match(hunk, alignment.rows, FUZZY): best - alignment.score
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


def _effect(match: Match) -> object:
    try:
        return tuple(match.changes())
    except PatchError:
        return match.rows


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
        items.append(_Item(line.text, key, gone or line.rewritten, value, changed or gone))
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
    cannot be the same line. What stands there as it is, is not taken for a line that is only like it, unless windows
    are compared (`even`): it would count against the one that it is in."""
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


_MOST = 40
_MOST_CHAINS = 1000
_MOST_PARTS = 12
Rows = tuple[int, ...]


def chained(hunk: Hunk, index: FileIndex, loosest: str = WHITESPACE) -> list[Match]:
    """The places of a hunk whose parts are in the file one after another, with other lines between them; no part is
    found at a level beyond `loosest`."""
    if any(line.kind == CONTEXT and is_elision(line.text) for line in hunk.lines):
        return _elided(hunk, index, loosest)
    return _fused(hunk, index, loosest)


def _elided(hunk: Hunk, index: FileIndex, loosest: str) -> list[Match]:
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


def _fitting(hunk: Hunk, rows: Sequence[Sequence[int | None]]) -> list[Match]:
    """One fit for each different change."""
    found: dict[object, Match] = {}
    for some in rows:
        match = Match(hunk, tuple(some), ELISION)
        try:
            found.setdefault(tuple(match.changes()), match)
        except PatchError:  # an addition between two elisions: nothing holds it
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


def _fused(hunk: Hunk, index: FileIndex, loosest: str) -> list[Match]:
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
        found: dict[object, Match] = {}
        for last, rows in longer:
            if last == len(hunk.lines):
                match = Match(hunk, rows, SPLIT)
                found.setdefault(tuple(match.changes()), match)
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
