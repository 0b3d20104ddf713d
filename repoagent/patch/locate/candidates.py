"""The places where a hunk fits, at the first tolerance that gives any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError
from repoagent.patch.locate.exact import EXACT, LEVELS, WHITESPACE, FileIndex, Match, find_old, is_blank
from repoagent.patch.locate.explain import applied_rows
from repoagent.patch.locate.fuzzy import aligned, chained
from repoagent.patch.model import ADD, CONTEXT, Hunk, Line


def find_matches(hunk: Hunk, index: FileIndex, *, strict: bool = False) -> list[Match]:
    """All places of `hunk` at the strictest level that has any. `strict` stops after the exact one.

    Raises PatchError if the hunk contains no line of the file. A hunk that is applied already is not searched for
    loosely.
    """
    if not index.lines and not hunk.deleted and all(is_blank(line.text) for line in hunk.old):
        return [Match(replace(hunk, lines=hunk.added), (), EXACT)]
    if all(is_blank(line.text) for line in hunk.old) and not _numbered_blank(hunk, index):
        raise PatchError(
            "no-context",
            "the hunk contains no line of the file, so its place is unknown. Send it with two or "
            "three unchanged lines before and after the change.",
            hunk.number,
        )
    if strict:
        return matches_at(hunk, index, EXACT)
    quoted = _signs_as_text(hunk, index)
    shown = any(line.bare and not is_blank(line.text) for line in hunk.lines)
    for option in filter(None, [quoted, hunk] if shown else [hunk, quoted]):
        for level in LEVELS:
            found = matches_at(option, index, level)
            if found:
                return found
    if applied_rows(hunk, index):
        return []
    in_parts = (
        chained(option, index, loosest) for loosest in (EXACT, WHITESPACE) for option in interpretations(hunk)
    )
    return _first(in_parts) or _first(aligned(option, index) for option in interpretations(hunk))


def _first(results: Iterator[list[Match]]) -> list[Match]:
    return next((found for found in results if found), [])


def matches_at(hunk: Hunk, index: FileIndex, level: str) -> list[Match]:
    """The places of all interpretations of a hunk at one tolerance. Interpretations with the same effect count once."""
    found: dict[object, Match] = {}
    for option in interpretations(hunk):
        for start in find_old(option.old, index, level):
            match = Match(option, tuple(range(start, start + len(option.old))), level)
            found.setdefault(_effect(match), match)
    return list(found.values())


def _effect(match: Match) -> object:
    """What a match changes; for a hunk that changes only the newline at the end, where it is."""
    return tuple(match.changes()) or match.rows


def _numbered_blank(hunk: Hunk, index: FileIndex) -> bool:
    """Whether a hunk of only blank lines has an exact header: then its number finds it."""
    if hunk.start is None or not hunk.old or not hunk.exact_counts:
        return False
    return hunk.start - 1 in index.find([line.text for line in hunk.old], EXACT)


def interpretations(hunk: Hunk) -> Iterator[Hunk]:
    """What the hunk can mean, likeliest first. A blank line without a first column is context, or a new blank line
    between two added ones, or (at an end of the hunk) nothing. If some lines lost their first column, those that
    start with a space may have lost theirs too."""
    yield hunk
    if not any(line.bare for line in hunk.lines):
        return
    between = replace(hunk, lines=_blank_as_added(hunk.lines))
    options = [_trimmed(hunk), between, _trimmed(between)]
    if any(line.bare and not is_blank(line.text) for line in hunk.lines):
        verbatim = tuple(
            replace(line, text=f" {line.text}")
            if line.kind == CONTEXT and not line.bare and line.text
            else line
            for line in hunk.lines
        )
        options += [replace(hunk, lines=verbatim), _trimmed(replace(hunk, lines=verbatim))]
    seen = {hunk.lines}
    for option in options:
        if option.lines and option.lines not in seen:
            seen.add(option.lines)
            yield option


def _signs_as_text(hunk: Hunk, index: FileIndex) -> Hunk | None:
    """Where context came without its first column, a line of the file that begins with `+` or `-` looks like a
    change: the hunk with those as context, if some of its changes are left."""
    present = index.places(EXACT)
    lines = tuple(
        replace(line, kind=CONTEXT, text=line.kind + line.text, bare=True)
        if line.kind != CONTEXT and line.kind + line.text in present
        else line
        for line in hunk.lines
    )
    option = replace(hunk, lines=lines, tolerances=hunk.tolerances | {"bare-context"})
    return option if lines != hunk.lines and option.changes else None


def _blank_as_added(lines: Sequence[Line]) -> tuple[Line, ...]:
    result = list(lines)
    for at, line in enumerate(lines):
        if not (line.bare and is_blank(line.text)):
            continue
        before = next((other for other in reversed(lines[:at]) if not other.bare), None)
        after = next((other for other in lines[at + 1 :] if not other.bare), None)
        if before is not None and after is not None and before.kind == after.kind == ADD:
            result[at] = replace(line, kind=ADD)
    return tuple(result)


def _trimmed(hunk: Hunk) -> Hunk:
    lines = list(hunk.lines)
    while lines and lines[-1].bare and is_blank(lines[-1].text):
        lines.pop()
    while lines and lines[0].bare and is_blank(lines[0].text):
        lines.pop(0)
    return replace(hunk, lines=tuple(lines))
