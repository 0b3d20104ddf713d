"""Hunks that fit at several places -> the one that the rest of the answer points to, or a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from repoagent.patch.hunk import Hunk
from repoagent.patch.locate.fit import Fit
from repoagent.patch.locate.match import FUZZY, LEVELS, WHITESPACE, FileIndex, indent_of, is_blank
from repoagent.patch.problems import Misfit
from repoagent.patch.text import numbered

_EQUAL = 1e-6  # a difference between two scores that is none


def choose(hunks: Sequence[Hunk], options: Sequence[Sequence[Fit]], index: FileIndex) -> list[Fit | Misfit]:
    """One fit for each hunk, or why none could be chosen. Every hunk has at least one option.

    What decides, in this order: the newline mark at the end of the file; the heading after `@@`; the order of
    the hunks; the header's line number, shifted as the hunks already placed are. What a step leaves empty it
    does not decide, except that nothing overrules a heading. Between places that fit only loosely the order does
    not decide, and the number only between those that fit equally well.
    """
    chosen: dict[int, Fit] = {number: some[0] for number, some in enumerate(options) if len(some) == 1}
    _assign_repeated(hunks, options, chosen)
    progress = True
    while progress:
        progress = False
        for number, hunk in enumerate(hunks):
            if number in chosen:
                continue
            left = _narrowed(number, hunk, options[number], chosen, index)
            if len(left) == 1:
                chosen[number] = left[0]
                progress = True
    return [
        chosen.get(number) or _ambiguous(hunk, options[number], index) for number, hunk in enumerate(hunks)
    ]


def _assign_repeated(hunks: Sequence[Hunk], options: Sequence[Sequence[Fit]], chosen: dict[int, Fit]) -> None:
    """The same hunk as often as there are places for it: each place gets one, and which does not matter."""
    groups: dict[object, list[int]] = {}
    for number, hunk in enumerate(hunks):
        if number not in chosen:
            groups.setdefault(hunk.lines, []).append(number)
    for group in groups.values():
        places = options[group[0]]
        if len(group) > 1 and len(group) == len(places):
            chosen.update(zip(group, places, strict=True))


def _narrowed(
    number: int, hunk: Hunk, fits: Sequence[Fit], chosen: dict[int, Fit], index: FileIndex
) -> Sequence[Fit]:
    if hunk.old_marker:
        fits = [fit for fit in fits if fit.last == len(index.lines) - 1] or fits
    for heading in hunk.headings[:-1]:
        outer = _under_heading(heading, fits, index)
        fits = fits if outer is None else outer
    under = _under_heading(hunk.section, fits, index)
    if under is not None:
        if _contradicted(hunk, fits, under):
            return fits
        fits = under
    if fits and fits[0].level == FUZZY:
        least = min(fit.behind for fit in fits)
        named = _at_number(number, hunk, fits, chosen)
        return named if len(named) == 1 and named[0].behind - least < _EQUAL else fits
    fits = _in_order(number, fits, chosen) or fits
    if len(fits) <= 1:
        return fits
    return _at_number(number, hunk, fits, chosen)


def _contradicted(hunk: Hunk, fits: Sequence[Fit], under: Sequence[Fit]) -> bool:
    """Does a header that is right in its counts name a place by number which is none of those under its heading?"""
    if hunk.start is None or not hunk.exact_counts or not under:
        return False
    rows = [fit.first for fit in fits]
    return hunk.start - 1 in rows and hunk.start - 1 not in [fit.first for fit in under]


def _under_heading(section: str, fits: Sequence[Fit], index: FileIndex) -> Sequence[Fit] | None:
    """The fits that stand under the line which the hunk's header quotes; None when there is no such line."""
    wanted = LEVELS[WHITESPACE](section)
    if len(wanted) < 3:
        return None
    keys = index.keys(WHITESPACE)
    headings = {
        row for row, key in enumerate(keys) if key.startswith(wanted) or (len(key) > 5 and wanted == key)
    }
    if not headings:
        return None
    return [fit for fit in fits if _heading_above(fit.first, headings, index)]


def _heading_above(row: int, headings: set[int], index: FileIndex) -> bool:
    """Is the nearest line above `row` that could be a heading like those, one of them?

    A line of the same depth or less which starts with a letter ends the reach of a heading.
    """
    depth = min(len(indent_of(index.lines[heading]).expandtabs(4)) for heading in headings)
    for above in range(min(row, len(index.lines) - 1), -1, -1):
        if above in headings:
            return True
        line = index.lines[above]
        text = line.lstrip()
        if (
            above < row
            and text
            and len(indent_of(line).expandtabs(4)) <= depth
            and (text[0].isalpha() or text[0] == "_")
        ):
            return False
    return False


def _in_order(number: int, fits: Sequence[Fit], chosen: dict[int, Fit]) -> Sequence[Fit]:
    """The fits between those of the hunks before and after, if all placed so far are in the file's order."""
    placed = [chosen[other].first for other in sorted(chosen)]
    if any(left > right for left, right in pairwise(placed)):
        return fits
    low = max((chosen[other].last for other in chosen if other < number), default=-1)
    high = min((chosen[other].first for other in chosen if other > number), default=None)
    return [
        fit for fit in fits if fit.last > low and (high is None or fit.first < high) and fit.first + 3 > low
    ]


def _at_number(number: int, hunk: Hunk, fits: Sequence[Fit], chosen: dict[int, Fit]) -> Sequence[Fit]:
    """The fit at the header's line number. Alone, it counts only in a header that is right throughout."""
    if hunk.start is None:
        return fits
    shifts = {
        fit.first - (fit.hunk.start - 1)
        for other, fit in chosen.items()
        if fit.hunk.start is not None and fit.rows
    }
    if len(shifts) > 1 or (not shifts and not hunk.exact_counts):
        return fits
    row = hunk.start - 1 + (shifts.pop() if shifts else 0)
    return [fit for fit in fits if fit.first == row] or fits


def _ambiguous(hunk: Hunk, fits: Sequence[Fit], index: FileIndex) -> Misfit:
    places = ", ".join(str(fit.first + 1) for fit in fits[:8]) + (", …" if len(fits) > 8 else "")
    row = fits[0].first
    around = range(max(0, row - 2), min(len(index.lines), row + 3))
    telling = next((line.text for line in hunk.old if not is_blank(line.text)), "")
    return Misfit(
        "ambiguous",
        f"the hunk fits equally well at {len(fits)} places (lines {places}), and nothing says which is "
        f"meant. Send it with more unchanged lines around `{telling.strip()[:60]}`, enough to tell its "
        "place from the others, or with the enclosing function's first line after `@@`. "
        f"Around line {row + 1}:\n" + numbered((above, index.lines[above]) for above in around),
        hunk.number,
    )
