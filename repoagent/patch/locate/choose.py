"""Choose one place for each hunk of a file, or report every hunk that has none or several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from repoagent.patch.errors import PatchError, PatchErrors
from repoagent.patch.locate.candidates import find_matches, matches_at
from repoagent.patch.locate.exact import (
    FUZZY,
    LEVELS,
    WHITESPACE,
    FileIndex,
    Match,
    index_of,
    is_blank,
    under_heading,
)
from repoagent.patch.locate.explain import already_applied, applied_rows, mismatch
from repoagent.patch.locate.unescape import undone
from repoagent.patch.model import CONTEXT, Hunk, Text, numbered

_EQUAL = 1e-6  # a difference between two scores that is none


def choose(
    hunks: Sequence[Hunk], options: Sequence[Sequence[Match]], index: FileIndex
) -> list[Match | PatchError]:
    """One fit for each hunk, or why none could be chosen. Every hunk has at least one option.

    What decides, in this order: the newline mark at the end of the file; the heading after `@@`; the order of
    the hunks; the header's line number, shifted as the hunks already placed are. What a step leaves empty it
    does not decide, except that nothing overrules a heading. Between places that fit only loosely the order does
    not decide, and the number only between those that fit equally well.
    """
    chosen: dict[int, Match] = {number: some[0] for number, some in enumerate(options) if len(some) == 1}
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


def _assign_repeated(
    hunks: Sequence[Hunk], options: Sequence[Sequence[Match]], chosen: dict[int, Match]
) -> None:
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
    number: int, hunk: Hunk, matches: Sequence[Match], chosen: dict[int, Match], index: FileIndex
) -> Sequence[Match]:
    if hunk.old_marker:
        matches = [match for match in matches if match.last == len(index.lines) - 1] or matches
    for heading in hunk.headings[:-1]:
        outer = under_heading(heading, matches, index)
        matches = matches if outer is None else outer
    under = under_heading(hunk.section, matches, index)
    if under is not None:
        if _contradicted(hunk, matches, under):
            return matches
        matches = under
    if matches and matches[0].level == FUZZY:
        if _is_exact_alone(matches, index):
            return matches[:1]
        least = min(match.behind for match in matches)
        named = _at_number(number, hunk, matches, chosen)
        return named if len(named) == 1 and named[0].behind - least < _EQUAL else matches
    matches = _in_order(number, matches, chosen) or matches
    if len(matches) <= 1:
        return matches
    return _at_number(number, hunk, matches, chosen)


def _is_exact_alone(matches: Sequence[Match], index: FileIndex) -> bool:
    """Is every line that the best loose fit finds in the file there to the byte, and of the others no fit so, nor with
    more lines found?"""
    found = [
        [(line.text, row) for line, row in zip(match.hunk.old, match.rows, strict=True) if row is not None]
        for match in matches
    ]
    exact = [all(text == index.lines[row] for text, row in pairs) for pairs in found]
    return exact[0] and not any(exact[1:]) and len(found[0]) == max(map(len, found))


def _contradicted(hunk: Hunk, matches: Sequence[Match], under: Sequence[Match]) -> bool:
    """Does a header that is right in its counts name a place by number which is none of those under its heading?"""
    if hunk.start is None or not hunk.exact_counts or not under:
        return False
    rows = [match.first for match in matches]
    return hunk.start - 1 in rows and hunk.start - 1 not in [match.first for match in under]


def _in_order(number: int, matches: Sequence[Match], chosen: dict[int, Match]) -> Sequence[Match]:
    """The fits between those of the hunks before and after, if all placed so far are in the file's order."""
    placed = [chosen[other].first for other in sorted(chosen)]
    if any(left > right for left, right in pairwise(placed)):
        return matches
    low = max((chosen[other].last for other in chosen if other < number), default=-1)
    high = min((chosen[other].first for other in chosen if other > number), default=None)
    return [
        match
        for match in matches
        if match.last > low and (high is None or match.first < high) and match.first + 3 > low
    ]


def _at_number(
    number: int, hunk: Hunk, matches: Sequence[Match], chosen: dict[int, Match]
) -> Sequence[Match]:
    """The fit at the header's line number. Alone, it counts only in a header that is right throughout."""
    if hunk.start is None:
        return matches
    shifts = {
        match.first - (match.hunk.start - 1)
        for other, match in chosen.items()
        if match.hunk.start is not None and match.rows
    }
    if len(shifts) > 1 or (not shifts and not hunk.exact_counts):
        return matches
    row = hunk.start - 1 + (shifts.pop() if shifts else 0)
    return [match for match in matches if match.first == row] or matches


def _ambiguous(hunk: Hunk, matches: Sequence[Match], index: FileIndex) -> PatchError:
    rows = [match.first for match in matches]
    if len(set(rows)) < len(rows):  # one place for the hunk, and several for what it changes
        rows = sorted({row for match in matches for row in _first_changed(match)} or set(rows))
    places = ", ".join(str(row + 1) for row in rows[:8]) + (", …" if len(rows) > 8 else "")
    row = rows[0]
    around = range(max(0, row - 2), min(len(index.lines), row + 3))
    where = f"at {len(rows)} places (lines {places})" if len(rows) > 1 else f"in two ways at line {places}"
    telling = next((line.text for line in hunk.old if not is_blank(line.text)), "")
    return PatchError(
        "ambiguous",
        f"the hunk fits equally well {where}. "
        f"Send it with more unchanged lines around `{telling.strip()[:60]}` until its place "
        "is unique, or with the first line of the enclosing function after `@@`. "
        f"Around line {row + 1}:\n" + numbered((above, index.lines[above]) for above in around),
        hunk.number,
    )


def _first_changed(match: Match) -> list[int]:
    """The row of the first change; none for one that no line holds."""
    try:
        return [change.start for change in match.changes()[:1]]
    except PatchError:
        return []


EXPLAINED = 20  # hunks without a place; for further ones the nearest lines are not looked up


def place_hunks(hunks: Sequence[Hunk], text: Text, *, strict: bool = False) -> list[Match]:
    """The place of each hunk that changes anything. Raises PatchError or PatchErrors, also if a line that a hunk
    deletes and adds again is nowhere in the file."""
    index = index_of(text.lines)
    if not strict:
        hunks = undone(hunks, text.lines)
    wanted: list[Hunk] = []
    options: list[list[Match]] = []
    problems: list[PatchError] = []
    for hunk in hunks:
        if not hunk.changes and not any(line.rewritten and not is_blank(line.text) for line in hunk.lines):
            continue
        try:
            found = find_matches(hunk, index, strict=strict)
        except PatchError as problem:
            problems.append(problem)
            continue
        if not found:
            problems.append(mismatch(hunk, index, nearest=len(problems) < EXPLAINED))
        elif not hunk.changes:
            continue
        elif rows := _repeated(hunk, found, index):
            problems.append(already_applied(hunk, rows))
        else:
            wanted.append(hunk)
            options.append(found)
    chosen = choose(wanted, _at_one_depth(wanted, options, index), index)
    problems += [item for item in chosen if isinstance(item, PatchError)]
    if problems:
        raise PatchErrors(sorted(problems, key=lambda problem: problem.hunk))
    return [item for item in chosen if isinstance(item, Match)]


def _at_one_depth(
    hunks: Sequence[Hunk], options: Sequence[Sequence[Match]], index: FileIndex
) -> list[list[Match]]:
    """Where one hunk needs other white space, so may others: their exact place is one of several then."""
    shifted = any(match.level == WHITESPACE for found in options for match in found)
    result: list[list[Match]] = []
    for hunk, found in zip(hunks, options, strict=True):
        rows = {match.rows for match in found}
        loose = matches_at(hunk, index, WHITESPACE) if shifted and found[0].level in LEVELS else []
        result.append([*found, *(match for match in loose if match.rows not in rows)])
    return result


def _repeated(hunk: Hunk, found: Sequence[Match], index: FileIndex) -> list[int]:
    """Where an insertion without context on one side would put in again what stands right there.

    A header that is right in every way (a tool's, not a model's) says that this is meant.
    """
    if len(found) != 1 or hunk.deleted or hunk.exact_counts or not hunk.lines:
        return []
    if CONTEXT == hunk.lines[0].kind == hunk.lines[-1].kind:
        return []
    return [row for row in applied_rows(hunk, index) if abs(row - found[0].first) <= len(hunk.added)]
