"""Loose alignment: deleted lines must exist, but context may be slightly wrong, missing or extra.

Also matches hunks in parts: those with omitted code (`...`), and those that join several locations.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise

from repoagent.dataclass import dataclass
from repoagent.patch.locate import exact
from repoagent.patch.locate.exact import FileIndex, Match, RowChange
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, HunkLine, is_elision
from repoagent.patch.refusal import PatchError

_SLACK = 12  # lines by which a location may differ from the expected one
_ENOUGH = 0.5  # share of the hunk's value that must match exactly except for white space
_SIMILAR = 0.6  # least similarity of two lines of context: 2 x common characters in order / both lengths
_MARGIN = 0.85  # a runner-up with this share of the best score makes the location ambiguous
_LOCAL = 0.5  # an alignment that loses this share of a change's anchors is not a rival
_LONGEST = 150  # lines of a hunk
_WINDOWS = 4
_DROP, _SKIP = -0.3, -0.2
_ADJACENT = 0.01  # bonus for a line next to a change, so that of two blank lines this one is matched
_MOST_PLACES = 40
_MOST_CHAINS = 1000
_MOST_PARTS = 12


@dataclass(frozen=True)
class _Item:
    """A line that the file should contain. `required`: exactly; `fixed`: directly below the previous one."""

    text: str
    key: str
    required: bool
    value: float
    fixed: bool


@dataclass(frozen=True)
class _Alignment:
    score: float
    rows: tuple[int | None, ...]


Gains = list[list[float | None]]


def align_hunk(hunk: Hunk, index: FileIndex) -> list[Match]:
    """The best loose match of a hunk; several if a runner-up is close, none if too little fits."""
    items = _items(hunk)
    keys = index.keys(exact.WHITESPACE)
    present = index.counts(exact.WHITESPACE)
    if not 0 < len(items) <= _LONGEST or any(item.required and item.key not in present for item in items):
        return []
    windows = list(_windows(items, index))
    results = _alignments(items, index, enumerate(windows))
    if not results:
        return []
    chosen = max(results, key=lambda number: results[number][0].score)
    best, gains = results[chosen]
    match = Match(hunk, best.rows, exact.FUZZY)
    if not _is_confident(match, keys):
        return []
    rivals: dict[Match, float] = {}
    for pins in _pins(items, best):
        runner = _best_alignment(items, keys, windows[chosen], gains, pins)
        # An alignment that omits lines of the hunk does not rival one that has all of them.
        if runner is None or (None not in best.rows and None in runner.rows):
            continue
        at_stake = sum(gains[number][row - windows[chosen].start] or 0.0 for number, row in pins)
        if best.score - runner.score < _LOCAL * at_stake:
            rivals[Match(hunk, runner.rows, exact.FUZZY)] = best.score - runner.score
    for alignment, _ in results.values():
        if alignment.score >= _MARGIN * best.score:
            rivals[Match(hunk, alignment.rows, exact.FUZZY)] = best.score - alignment.score
    if len(windows) > 1:
        # by a measure that is the same for all windows: a similar line counts even if the window has the line itself
        chosen_first = sorted(enumerate(windows), key=lambda entry: entry[0] != chosen)
        by_window = _alignments(items, index, chosen_first, even=True)
        most = by_window[chosen][0].score
        for number, (alignment, _) in by_window.items():
            if number != chosen and alignment.score >= _MARGIN * most:
                rivals[Match(hunk, alignment.rows, exact.FUZZY)] = most - alignment.score
    by_effect = {_effect(rival): replace(rival, behind=behind) for rival, behind in rivals.items()}
    return [match, *(rival for effect, rival in by_effect.items() if effect != _effect(match))]


def _alignments(
    items: Sequence[_Item], index: FileIndex, windows: Iterable[tuple[int, range]], *, even: bool = False
) -> dict[int, tuple[_Alignment, Gains]]:
    """The best alignment in each numbered window that may come close to the best of all; see `_gains`."""
    keys = index.keys(exact.WHITESPACE)
    results: dict[int, tuple[_Alignment, Gains]] = {}
    for number, window in windows:
        gains = [_gains(item, window, index, even=even) for item in items]
        # an upper bound of the score: the best match of each line, regardless of order
        bound = sum(max((gain for gain in row if gain is not None), default=0.0) for row in gains)
        if results and bound < _MARGIN * max(other.score for other, _ in results.values()):
            continue
        alignment = _best_alignment(items, keys, window, gains)
        if alignment is not None:
            results[number] = alignment, gains
    return results


def _effect(match: Match) -> object:
    try:
        return tuple(match.changes())
    except PatchError:
        return match.rows


def _value(text: str) -> float:
    """From 0.1 for a blank line to 1.3."""
    return 0.1 if exact.is_blank(text) else 0.3 + exact.weight(text) / 20


def _items(hunk: Hunk) -> list[_Item]:
    items: list[_Item] = []
    after_change = True
    kinds = [CONTEXT, *(line.kind for line in hunk.lines), CONTEXT]
    for number, line in enumerate(hunk.lines):
        if line.kind == ADD:
            after_change = True
            continue
        key = exact.without_spaces(line.text)
        deleted = line.kind == DELETE
        value = _value(line.text) + _ADJACENT * (kinds[number : number + 3] != [CONTEXT] * 3)
        items.append(_Item(line.text, key, deleted or line.rewritten, value, after_change or deleted))
        after_change = deleted
    return items


def _windows(items: Sequence[_Item], index: FileIndex) -> Iterator[range]:
    """The ranges of the file where most of the hunk's rarer lines have the same distances as in the hunk."""
    votes: Counter[int] = Counter()
    for offset, item in enumerate(items):
        rows = index.rows(item.key, exact.WHITESPACE)
        if item.key and len(rows) <= 60:
            for row in rows:
                votes[row - offset] += exact.weight(item.text) + 1
    starts: list[int] = []
    for start, _ in sorted(votes.items(), key=lambda vote: (-vote[1], vote[0])):
        if all(abs(start - earlier) > _SLACK for earlier in starts):
            starts.append(start)
            yield range(max(0, start - _SLACK), min(len(index.lines), start + len(items) + _SLACK))
        if len(starts) == _WINDOWS:
            return


def _gains(item: _Item, window: range, index: FileIndex, *, even: bool) -> list[float | None]:
    """The gain of matching an item with each line of the window; None if they cannot be the same. If the window has the
    line itself, similar ones do not count, unless windows are compared (`even`)."""
    keys = index.keys(exact.WHITESPACE)
    similarity: Callable[[str], float] | None = None
    may_differ = not item.required and exact.weight(item.key) >= 3
    if may_differ and (even or item.key not in keys[window.start : window.stop]):
        from rapidfuzz.distance import Indel

        similarity = partial(Indel.normalized_similarity, item.key, score_cutoff=_SIMILAR)
    gains: list[float | None] = []
    for row in window:
        gain = None
        if item.key == keys[row]:
            if not item.required or exact.same_literals(item.text, index.lines[row]):
                gain = item.value if item.text == index.lines[row] else 0.95 * item.value
        elif similarity is not None and keys[row]:
            ratio = similarity(keys[row])
            gain = 0.7 * ratio * item.value if ratio else None
        gains.append(gain)
    return gains


def _best_alignment(
    items: Sequence[_Item],
    keys: Sequence[str],
    window: range,
    gains: Gains,
    forbidden: frozenset[tuple[int, int]] = frozenset(),
) -> _Alignment | None:
    """The alignment with the best score in `window`, or None: dynamic programming over (item, row), from the end; no
    pair in `forbidden`."""
    worst = float("-inf")
    low, width = window.start, len(window)
    ahead = [0.0] * (width + 1)
    choices: list[list[str]] = []
    skips = [_SKIP if keys[row] else _SKIP / 4 for row in window]
    for number in range(len(items) - 1, -1, -1):
        item, gained = items[number], list(gains[number])
        for forbidden_number, row in forbidden:
            if forbidden_number == number:
                gained[row - low] = None
        drop = worst if item.required else _DROP * item.value
        scores = [worst] * (width + 1)
        choice = [""] * (width + 1)
        scores[width] = ahead[width] + drop
        choice[width] = "" if item.required else "drop"
        for column in range(width - 1, -1, -1):
            best, step = ahead[column] + drop, "drop"
            gain = gained[column]
            if gain is not None and ahead[column + 1] + gain > best:
                best, step = ahead[column + 1] + gain, "match"
            if not item.fixed and scores[column + 1] + skips[column] > best:
                best, step = scores[column + 1] + skips[column], "skip"
            scores[column], choice[column] = best, step
        ahead = scores
        choices.append(choice)
    choices.reverse()
    column = max(range(width + 1), key=lambda column: ahead[column])
    if ahead[column] <= 0:
        return None
    score = ahead[column]
    rows: list[int | None] = []
    while len(rows) < len(choices):
        step = choices[len(rows)][column]
        if step == "match":
            rows.append(low + column)
        elif step == "drop":
            rows.append(None)
        column += step != "drop"
    return _Alignment(score, tuple(rows))


def _pins(items: Sequence[_Item], best: _Alignment) -> Iterator[frozenset[tuple[int, int]]]:
    """For each run of lines that anchors changes, its matches: a runner-up may not use them."""
    run: set[tuple[int, int]] = set()
    for number, (item, row) in enumerate(zip(items, best.rows, strict=True)):
        before_fixed = number + 1 < len(items) and items[number + 1].fixed
        if row is not None and (item.fixed or before_fixed):
            run.add((number, row))
        if not before_fixed and run:
            yield frozenset(run)
            run = set()
    if run:
        yield frozenset(run)


def _is_confident(match: Match, keys: Sequence[str]) -> bool:
    """Whether half of the hunk's value matches except for white space, and every addition is anchored."""
    old = match.hunk.old
    certain = {
        number
        for number, row in enumerate(match.rows)
        if row is not None and keys[row] == exact.without_spaces(old[number].text)
    }
    exact_value = sum(_value(old[number].text) for number in certain)
    if exact_value < _ENOUGH * sum(_value(line.text) for line in old):
        return False
    try:
        changes = match.changes()
    except PatchError:
        return False
    if any(left == right for left, right in pairwise((change.start, change.end) for change in changes)):
        return False  # a dropped line is between two additions, and may be a part of them
    neighbours: list[list[int]] = []  # for each run of changes: the lines of `old` right before and after it
    position = 0
    for is_context, run in groupby(match.hunk.lines, key=lambda line: line.kind == CONTEXT):
        count = sum(line.kind != ADD for line in run)
        if not is_context:
            neighbours.append([at for at in (position - 1, position + count) if 0 <= at < len(old)])
        position += count
    return all(
        not change.added or _is_anchored(change, adjacent, match, certain, keys)
        for change, adjacent in zip(changes, neighbours, strict=True)
    )


def _is_anchored(
    change: RowChange, adjacent: Sequence[int], match: Match, certain: set[int], keys: Sequence[str]
) -> bool:
    """Whether this is the only location for the added lines, and they are not there yet. A neighbour nearby, but not
    adjacent, leaves the side open. If nothing is deleted, a neighbour must match, and be more than a bracket."""
    old, rows = match.hunk.old, match.rows
    for number in adjacent:
        reach = _SLACK if exact.weight(old[number].text) > 1 else 2
        nearby = keys[max(0, change.start - reach) : change.end + reach]
        if number not in certain and exact.without_spaces(old[number].text) in nearby:
            return False
    telling = [number for number in adjacent if exact.weight(old[number].text) > 1]
    if change.start < change.end:
        return True
    if len(adjacent) == 2 and certain.issuperset(adjacent) and telling:
        above, below = (rows[number] for number in adjacent)
        if above is not None and below == above + 1:  # the neighbours are adjacent in the file
            return True
    edges = {0: 0, len(keys): len(old) - 1}  # both the hunk and the file begin, or end, there
    if change.start in edges and list(adjacent) == [edges[change.start]] and adjacent[0] in certain:
        return True
    present = {keys[row] for row in (change.start - 1, change.end) if 0 <= row < len(keys)}
    if any(
        exact.without_spaces(line.text) in present for line in change.added if exact.weight(line.text) > 3
    ):
        return False
    matched = [number for number in adjacent if rows[number] is not None]
    return any(number in certain and (number in telling or len(matched) == 2) for number in matched)


Rows = tuple[int, ...]


def match_in_parts(hunk: Hunk, index: FileIndex, loosest: str) -> list[Match]:
    """Return the matches of a hunk whose parts occur in the file in the same order, with other lines between them.

    `loosest` is the loosest level allowed for a part.
    """
    if not any(line.kind == CONTEXT and is_elision(line.text) for line in hunk.lines):
        return _match_joined(hunk, index, loosest)
    # Match each part between elisions, and prefer chains within one block.
    parts: list[list[HunkLine]] = [[]]
    for line in hunk.lines:
        if line.kind == CONTEXT and is_elision(line.text):
            parts.append([])
        else:
            parts[-1].append(line)
    olds = [[line for line in part if line.kind != ADD] for part in parts]
    if any(
        part and all(exact.is_blank(line.text) for line in old) for part, old in zip(parts, olds, strict=True)
    ):
        return []
    options = [_find_part(old, index, loosest) for old in olds if old]

    def in_one_block(before: Rows, after: Rows) -> bool:
        """Whether no line between two parts ends the block of the first."""
        outer, inner = _depth(index.lines, before[::-1]), _depth(index.lines, after)
        least = outer + 1 if inner > outer else min(outer, inner)
        between = index.lines[before[-1] + 1 : after[0]]
        return all(exact.is_blank(line) or exact.depth_of(line) >= least for line in between)

    chains = _chains(options, in_one_block) or _chains(options)
    if len(chains) > _MOST_CHAINS:
        return []
    matches: dict[object, Match] = {}  # by effect
    for chain in chains:
        rows: list[int | None] = []
        rest = iter(chain)
        for number, old in enumerate(olds):
            rows += [None] * bool(number)  # the elision line
            rows += next(rest) if old else ()
        match = Match(hunk, tuple(rows), exact.ELISION)
        try:
            matches.setdefault(tuple(match.changes()), match)
        except PatchError:  # an addition between two elisions has no anchor
            return []
    return list(matches.values())


def _find_part(old: Sequence[HunkLine], index: FileIndex, loosest: str) -> list[Rows]:
    for level in exact.LEVELS:
        if starts := exact.find_old(old, index, level):
            return [tuple(range(start, start + len(old))) for start in starts]
        if level == loosest:
            break
    return []


def _chains(
    options: Sequence[Sequence[Rows]], follows: Callable[[Rows, Rows], bool] | None = None
) -> list[tuple[Rows, ...]]:
    """The combinations of one location for each part, in order. Only the nearest `_MOST_PLACES` locations count; stops
    after `_MOST_CHAINS`."""
    if not all(options) or not options:
        return []
    work: list[tuple[Rows, ...]] = [(rows,) for rows in reversed(options[0])]
    chains: list[tuple[Rows, ...]] = []
    while work and len(chains) <= _MOST_CHAINS:
        chain = work.pop()
        if len(chain) == len(options):
            chains.append(chain)
            continue
        rest = options[len(chain)]
        first = bisect_right(rest, chain[-1][-1], key=lambda rows: rows[0])
        near = rest[first : first + _MOST_PLACES]
        work += [(*chain, rows) for rows in reversed(near) if follows is None or follows(chain[-1], rows)]
    return chains


def _depth(lines: Sequence[str], rows: Rows) -> int:
    return next((exact.depth_of(lines[row]) for row in rows if not exact.is_blank(lines[row])), 0)


def _match_joined(hunk: Hunk, index: FileIndex, loosest: str) -> list[Match]:
    """Split a hunk in the context between its changes into as few parts as possible, each with a single location, in
    order."""
    lines = hunk.lines
    changed = [at for at, line in enumerate(lines) if line.kind in {ADD, DELETE}]
    cuts = [  # inside a run of context between two changes: each half keeps a line
        at
        for at in (range(changed[0] + 1, changed[-1] + 1) if changed else ())
        if lines[at].kind == CONTEXT and lines[at - 1].kind == CONTEXT
    ]
    bounds = [0, *cuts[:_MOST_PLACES], len(lines)]
    located: dict[tuple[int, int], Rows] = {}

    def rows_of(first: int, last: int) -> Rows:
        """The only location of the lines between two bounds; () if they have several or none, or are blank."""
        if (first, last) not in located:
            old = [line for line in lines[first:last] if line.kind != ADD]
            matches = (
                [] if all(exact.is_blank(line.text) for line in old) else _find_part(old, index, loosest)
            )
            located[first, last] = matches[0] if len(matches) == 1 else ()
        return located[first, last]

    ways: list[tuple[int, Rows]] = [(0, ())]  # the bound reached, and the rows so far
    for _ in range(_MOST_PARTS):
        longer = [
            (last, rows + part)
            for first, rows in ways
            for last in bounds
            if last > first
            and (first or last < len(lines))
            and (part := rows_of(first, last))
            and (not rows or rows[-1] < part[0])
        ]
        matches: dict[object, Match] = {}
        for last, rows in longer:
            if last == len(lines):
                match = Match(hunk, rows, exact.SPLIT)
                matches.setdefault(tuple(match.changes()), match)
        if matches or len(longer) > _MOST_CHAINS:
            return list(matches.values()) if len(longer) <= _MOST_CHAINS else []
        ways = longer
    return []
