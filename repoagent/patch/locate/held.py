"""Is a loose alignment sure enough to change a file by it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from repoagent.patch.hunk import ADD, CONTEXT, Hunk
from repoagent.patch.locate.fit import Change, Fit
from repoagent.patch.locate.match import LEVELS, WHITESPACE, is_blank, weight
from repoagent.patch.problems import Misfit

SLACK = 12  # lines that may be more or fewer than expected
_ENOUGH = 0.5  # of the hunk's value must be matched without fuzz


def value_of(text: str) -> float:
    """What it is worth to find a line of a hunk: from 0.1 for a blank one to 1.3."""
    return 0.1 if is_blank(text) else 0.3 + weight(text) / 20


def sure(fit: Fit, keys: Sequence[str]) -> bool:
    """Does half of the hunk's value match without fuzz, and is every addition held where it is?

    `keys` are the file's lines without white space.
    """
    old = fit.hunk.old
    firm = {
        number
        for number, row in enumerate(fit.rows)
        if row is not None and keys[row] == LEVELS[WHITESPACE](old[number].text)
    }
    if sum(value_of(old[number].text) for number in firm) < _ENOUGH * sum(
        value_of(line.text) for line in old
    ):
        return False
    try:
        changes = fit.changes()
    except Misfit:
        return False
    if any(one == other for one, other in pairwise((change.start, change.end) for change in changes)):
        return False  # a lost line stands between two additions, which may be a part of them
    return all(
        not change.added
        or _held(change, [number for number in beside if 0 <= number < len(old)], fit, firm, keys)
        for change, beside in zip(changes, _neighbours(fit.hunk), strict=True)
    )


def _neighbours(hunk: Hunk) -> Iterator[tuple[int, int]]:
    """For each run of changes: positions in `hunk.old` right before and right after it."""
    position = 0
    for context, run in groupby(hunk.lines, key=lambda line: line.kind == CONTEXT):
        olds = sum(line.kind != ADD for line in run)
        if not context:
            yield position - 1, position + olds
        position += olds


def _held(change: Change, beside: Sequence[int], fit: Fit, firm: set[int], keys: Sequence[str]) -> bool:
    """Is this the one place for the added lines, and are they not there already?

    A neighbour that stands a little off leaves it open on which side of the lines between they belong.
    Where nothing is deleted, a neighbour must match without fuzz, and a light one (a bracket) not alone.
    """
    texts = {number: fit.hunk.old[number].text for number in beside}
    for number, text in texts.items():
        reach = SLACK if weight(text) > 1 else 2
        if (
            number not in firm
            and LEVELS[WHITESPACE](text) in keys[max(0, change.start - reach) : change.end + reach]
        ):
            return False
    if change.start < change.end or _between(beside, fit, firm) or _at_edge(change, beside, fit, firm, keys):
        return True
    there = {keys[row] for row in (change.start - 1, change.end) if 0 <= row < len(keys)}
    if any(LEVELS[WHITESPACE](line.text) in there for line in change.added if weight(line.text) > 3):
        return False
    matched = [number for number in beside if fit.rows[number] is not None]
    return any(number in firm and (weight(texts[number]) > 1 or len(matched) == 2) for number in matched)


def _between(beside: Sequence[int], fit: Fit, firm: set[int]) -> bool:
    """Do the lines above and below an addition stand next to each other in the file, and is one of them telling?"""
    if len(beside) < 2 or not firm.issuperset(beside):
        return False
    above, below = (fit.rows[number] for number in beside)
    telling = any(weight(fit.hunk.old[number].text) > 1 for number in beside)
    return telling and above is not None and below == above + 1


def _at_edge(change: Change, beside: Sequence[int], fit: Fit, firm: set[int], keys: Sequence[str]) -> bool:
    """Is it the beginning or the end of both the hunk and the file, beside a line that is there?"""
    edges = {0: 0, len(keys): len(fit.hunk.old) - 1}
    return change.start in edges and list(beside) == [edges[change.start]] and beside[0] in firm
