"""Find the possible locations of each hunk, at the strictest level that yields any, and choose one of them or explain
why none can be chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from repoagent.patch.locate import exact
from repoagent.patch.locate.exact import FileIndex, Match
from repoagent.patch.model import ADD, CONTEXT, DELETE, FileText, Hunk, HunkLine, with_line_numbers
from repoagent.patch.refusal import PatchError, PatchErrors

_EQUAL = 1e-6  # scores that differ by less are equal
_EXPLAINED = 20  # hunks that do not match for which to find the nearest lines
_COMPARED = 300  # characters of a line to compare


def place_hunks(hunks: Sequence[Hunk], text: FileText, *, strict: bool) -> list[Match]:
    """Return the location of each hunk that changes something. Raises PatchError or PatchErrors if a hunk cannot be
    placed."""
    index = exact.index_of(text.lines)
    if not strict:
        hunks = exact.unescape(hunks, text.lines)
    changing: list[Hunk] = []
    options: list[list[Match]] = []
    problems: list[PatchError] = []
    for hunk in hunks:
        if not hunk.changes and not any(
            line.rewritten and not exact.is_blank(line.text) for line in hunk.lines
        ):
            continue
        try:
            matches = find_matches(hunk, index, strict=strict)
        except PatchError as problem:
            problems.append(problem)
            continue
        if not matches:
            problems.append(_mismatch(hunk, index, nearest=len(problems) < _EXPLAINED))
        elif not hunk.changes:
            continue
        elif (
            # An insertion without context on one side must not repeat lines that are already there: git, too, places
            # it only where the file ends on that side.
            len(matches) == 1
            and not hunk.deleted
            and not CONTEXT == hunk.lines[0].kind == hunk.lines[-1].kind
            and (
                rows := [
                    row for row in applied_rows(hunk, index) if abs(row - matches[0].first) <= len(hunk.added)
                ]
            )
        ):
            problems.append(_already_applied(hunk, rows))
        else:
            changing.append(hunk)
            options.append(matches)
    if any(match.level == exact.WHITESPACE for matches in options for match in matches):
        # If one hunk is indented differently, others may be too: an exact location may be one of several.
        for hunk, matches in zip(changing, options, strict=True):
            rows_of_matches = {match.rows for match in matches}
            if matches[0].level in exact.LEVELS:
                loose = matches_at(hunk, index, exact.WHITESPACE)
                matches += [match for match in loose if match.rows not in rows_of_matches]
    chosen = choose(changing, options, index)
    problems += [item for item in chosen if isinstance(item, PatchError)]
    if problems:
        raise PatchErrors(sorted(problems, key=lambda problem: problem.hunk))
    return [item for item in chosen if isinstance(item, Match)]


def find_matches(hunk: Hunk, index: FileIndex, *, strict: bool) -> list[Match]:
    """Return all matches of `hunk` at the strictest level that yields any; `strict` allows only exact matches.

    A hunk that is already applied is not matched loosely. Raises PatchError if all old lines are blank and the header
    does not locate them.
    """
    if all(exact.is_blank(line.text) for line in hunk.old):
        if not index.lines and not hunk.deleted:
            return [Match(replace(hunk, lines=hunk.added), (), exact.EXACT)]
        # Only an exact header locates blank lines.
        texts = [line.text for line in hunk.old]
        numbered = hunk.start is not None and hunk.exact_counts
        if not numbered or (hunk.start or 0) - 1 not in index.find(texts, exact.EXACT):
            raise PatchError(
                "no-context",
                "the hunk contains no line of the file, so its location is unknown. Send it with two or "
                "three unchanged lines before and after the change.",
                hunk.number,
            )
    if strict:
        return matches_at(hunk, index, exact.EXACT)
    for level in exact.LEVELS:
        if matches := matches_at(hunk, index, level):
            return matches
    from repoagent.patch.locate.fuzzy import align_hunk, match_in_parts

    options = [] if applied_rows(hunk, index) else list(interpretations(hunk))
    for loosest in (exact.EXACT, exact.WHITESPACE):
        for option in options:
            if matches := match_in_parts(option, index, loosest):
                return matches
    return next((matches for option in options if (matches := align_hunk(option, index))), [])


def matches_at(hunk: Hunk, index: FileIndex, level: str) -> list[Match]:
    """Return the matches of all interpretations of a hunk at one level. Interpretations with the same effect count
    once."""
    options = list(interpretations(hunk))
    matches = [
        Match(option, tuple(range(start, start + len(option.old))), level)
        for option in options
        for start in exact.find_old(option.old, index, level)
    ]
    if len(options) == 1:
        return matches
    by_effect: dict[object, Match] = {}
    for match in matches:
        by_effect.setdefault(tuple(match.changes()) or match.rows, match)
    return list(by_effect.values())


def interpretations(hunk: Hunk) -> Iterator[Hunk]:
    """Yield the possible meanings of a hunk, likeliest first.

    A blank line without a first column may be context, an added line (between two others) or, at either end of the
    hunk, not part of it. If some lines lost their first column, those that start with a space may have lost theirs
    too.
    """
    yield hunk
    if not any(line.bare for line in hunk.lines):
        return
    added = list(hunk.lines)
    for at, line in enumerate(added):
        if line.bare and exact.is_blank(line.text):
            before = next((other.kind for other in reversed(hunk.lines[:at]) if not other.bare), None)
            after = next((other.kind for other in hunk.lines[at + 1 :] if not other.bare), None)
            if before == after == ADD:
                added[at] = replace(line, kind=ADD)
    with_added = tuple(added)
    options = [_without_blank_ends(hunk.lines), with_added, _without_blank_ends(with_added)]
    if any(line.bare and not exact.is_blank(line.text) for line in hunk.lines):
        verbatim = tuple(
            replace(line, text=f" {line.text}")
            if line.kind == CONTEXT and not line.bare and line.text
            else line
            for line in hunk.lines
        )
        options += [verbatim, _without_blank_ends(verbatim)]
    seen = {hunk.lines}
    for lines in options:
        if lines and lines not in seen:
            seen.add(lines)
            yield replace(hunk, lines=lines)


def _without_blank_ends(lines: tuple[HunkLine, ...]) -> tuple[HunkLine, ...]:
    while lines and lines[-1].bare and exact.is_blank(lines[-1].text):
        lines = lines[:-1]
    while lines and lines[0].bare and exact.is_blank(lines[0].text):
        lines = lines[1:]
    return lines


def choose(
    hunks: Sequence[Hunk], options: Sequence[Sequence[Match]], index: FileIndex
) -> list[Match | PatchError]:
    """Choose one match for each hunk, or return the reason why none could be chosen.

    The criteria are, in this order: the mark of the end of the file; the heading after `@@`; the order of the hunks;
    the line number, shifted as the previous hunks were. A criterion that no match satisfies is ignored, except for the
    heading. For loose matches, the order does not count, and the other criteria decide only among the best matches.
    """
    chosen: dict[int, Match] = {
        number: matches[0] for number, matches in enumerate(options) if len(matches) == 1
    }
    repeated: dict[object, list[int]] = {}
    for number, hunk in enumerate(hunks):
        if number not in chosen:
            repeated.setdefault(hunk.lines, []).append(number)
    for numbers in repeated.values():
        matches = options[numbers[0]]
        equal = all(map(_is_best, matches))
        if equal and 1 < len(numbers) == len(matches):  # as many equal hunks as locations: one each
            chosen.update((number, options[number][nth]) for nth, number in enumerate(numbers))
    progress = True
    while progress:
        progress = False
        for number, hunk in enumerate(hunks):
            if number not in chosen:
                left = _narrowed(number, hunk, options[number], chosen, index)
                if len(left) == 1 and _is_best(left[0]):
                    chosen[number] = left[0]
                    progress = True
    return [
        chosen.get(number) or _ambiguous(hunk, options[number], index) for number, hunk in enumerate(hunks)
    ]


def _is_best(match: Match) -> bool:
    # A match in another window that is ahead by the measure for windows is behind by the one for lines.
    return abs(match.behind) < _EQUAL


def _narrowed(
    number: int, hunk: Hunk, matches: Sequence[Match], chosen: dict[int, Match], index: FileIndex
) -> Sequence[Match]:
    if hunk.old_marker or hunk.at_end:
        matches = [match for match in matches if match.last == len(index.lines) - 1] or matches
    for heading in hunk.headings[:-1]:
        outer = under_heading(heading, matches, index)
        matches = matches if outer is None else outer
    under = under_heading(hunk.section, matches, index)
    if under is not None:
        if hunk.start is not None and hunk.exact_counts and under:
            row = hunk.start - 1  # a correct header may name a location other than the heading
            if any(match.first == row for match in matches) and all(match.first != row for match in under):
                return matches
        matches = under
    if matches and matches[0].level == exact.FUZZY:
        located = [[row for row in match.rows if row is not None] for match in matches]
        literal = [
            all(
                row is None or line.text == index.lines[row]
                for line, row in zip(match.hunk.old, match.rows, strict=True)
            )
            for match in matches
        ]
        if literal[0] and not any(literal[1:]) and len(located[0]) == max(map(len, located)):
            return matches[:1]
        least = min(match.behind for match in matches)
        at_number = _at_number(hunk, matches, chosen)
        return at_number if len(at_number) == 1 and at_number[0].behind - least < _EQUAL else matches
    rows = [chosen[placed].first for placed in sorted(chosen)]
    if all(left <= right for left, right in pairwise(rows)):  # all hunks placed so far are in file order
        low = max((match.last for placed, match in chosen.items() if placed < number), default=-1)
        high = min((match.first for placed, match in chosen.items() if placed > number), default=None)
        between = [
            match
            for match in matches
            if match.last > low and (high is None or match.first < high) and match.first + 3 > low
        ]
        matches = between or matches
    return _at_number(hunk, matches, chosen) if len(matches) > 1 else matches


def _at_number(hunk: Hunk, matches: Sequence[Match], chosen: dict[int, Match]) -> Sequence[Match]:
    """The match at the header's line number, which without other hunks needs correct counts."""
    if hunk.start is None:
        return matches
    shifts = {
        match.first - (match.hunk.start - 1)
        for match in chosen.values()
        if match.hunk.start is not None and match.rows
    }
    if len(shifts) > 1 or (not shifts and not hunk.exact_counts):
        return matches
    row = hunk.start - 1 + (shifts.pop() if shifts else 0)
    return [match for match in matches if match.first == row] or matches


def _ambiguous(hunk: Hunk, matches: Sequence[Match], index: FileIndex) -> PatchError:
    rows = [match.first for match in matches]
    if len(set(rows)) < len(rows):  # one location for the hunk, and several for what it changes
        changed: set[int] = set()
        for match in matches:
            try:
                changed |= {change.start for change in match.changes()[:1]}
            except PatchError:
                continue
        rows = sorted(changed or set(rows))
    numbers = ", ".join(str(row + 1) for row in rows[:8]) + (", …" if len(rows) > 8 else "")
    where = f"in {len(rows)} places (lines {numbers})" if len(rows) > 1 else f"in two ways at line {numbers}"
    row = rows[0]
    shown = range(max(0, row - 2), min(len(index.lines), row + 3))
    telling = next((line.text for line in hunk.old if not exact.is_blank(line.text)), "")
    return PatchError(
        "ambiguous",
        f"the hunk fits equally well {where}. "
        f"Send it with enough unchanged lines around `{telling.strip()[:60]}` to fit in only "
        "one place, or with the first line of the enclosing function after `@@`. "
        f"Around line {row + 1}:\n" + with_line_numbers((number, index.lines[number]) for number in shown),
        hunk.number,
    )


def applied_rows(hunk: Hunk, index: FileIndex) -> list[int]:
    """Return the rows at which the file already has the new side of the hunk; [] if that would prove too little.

    A deletion needs context on both sides. An addition must add more than brackets and blank lines.
    """
    if not any(exact.weight(line.text) > 1 for line in hunk.added):
        kinds = [line.kind for line in hunk.lines]
        if hunk.added or not hunk.deleted or kinds[0] != CONTEXT or kinds[-1] != CONTEXT:
            return []
    texts = [line.text for line in hunk.new]
    return next((rows for level in exact.LEVELS if (rows := index.find(texts, level))), [])


def _already_applied(hunk: Hunk, rows: list[int]) -> PatchError:
    numbers = ", ".join(str(row + 1) for row in rows[:5])
    text = f"this change is already in the file, at line {numbers}. Leave this hunk out."
    return PatchError("already-applied", text, hunk.number)


def _mismatch(hunk: Hunk, index: FileIndex, *, nearest: bool) -> PatchError:
    """Why `hunk` does not match, with the nearest lines of the file if `nearest`."""
    if rows := applied_rows(hunk, index):
        return _already_applied(hunk, rows)
    present = index.counts(exact.WHITESPACE)
    missing = [line for line in hunk.old if exact.without_spaces(line.text) not in present]
    required = any(line.kind == DELETE or line.rewritten for line in missing)
    reason = "deleted-line-missing" if required else "not-found"
    text = "the hunk does not match the file"
    if missing:
        quoted = "\n".join(f"  {line.kind}{line.text}" for line in missing[:5])
        text += f"; these of its lines are not in the file:\n{quoted}\n"
    else:
        text += ": all its lines are in the file, but not together. "
    row = None  # where most lines are, or the line most similar to the most distinctive one
    votes: Counter[int] = Counter()
    for offset, line in enumerate(hunk.old) if nearest else ():
        rows = index.rows(exact.without_spaces(line.text), exact.WHITESPACE)
        if not exact.is_blank(line.text) and len(rows) < 50:
            for found in rows:
                votes[max(0, found - offset)] += exact.weight(line.text) + 1
    if votes:
        row = min(votes, key=lambda row: (-votes[row], row))
    elif nearest and hunk.old and index.lines:
        from rapidfuzz import process
        from rapidfuzz.distance import Indel

        telling = max((line.text for line in hunk.old), key=exact.weight).strip()[:_COMPARED]
        lines = [line.strip()[:_COMPARED] for line in index.lines]
        best = process.extractOne(telling, lines, scorer=Indel.normalized_similarity, score_cutoff=0.5)
        row = None if best is None else best[2]
    if row is not None:
        first = max(0, row - 2)
        shown = range(first, min(len(index.lines), row + len(hunk.old) + 3, first + 30))
        text += "The nearest lines of the file are:\n"
        text += with_line_numbers((number, index.lines[number]) for number in shown)
    advice = "\nSend the hunk again with its unchanged and deleted lines copied from the file exactly."
    return PatchError(reason, text.rstrip() + advice, hunk.number)


def under_heading(section: str, matches: Sequence[Match], index: FileIndex) -> Sequence[Match] | None:
    """Return the matches in a section that begins with the heading `section`; None if no line is such a heading.

    A section ends at a line with the same or less indentation that starts with a letter or with the first character of
    a heading (a quote in JSON).
    """
    key, lines, keys = exact.without_spaces(section), index.lines, index.keys(exact.WHITESPACE)
    headings = {row for row, line in enumerate(keys) if line.startswith(key)} if len(key) > 2 else set()
    if not headings:
        return None
    depth = min(exact.depth_of(lines[heading]) for heading in headings)
    signs = {"_", *(lines[heading].lstrip()[:1] for heading in headings)}
    within: list[bool] = []
    inside = False
    for row, line in enumerate(lines):
        inside = inside or row in headings
        within.append(inside)
        if inside and row not in headings and (text := line.lstrip()):
            inside = not (text[0].isalpha() or text[0] in signs) or exact.depth_of(line) > depth
    return [match for match in matches if within[match.first]]
