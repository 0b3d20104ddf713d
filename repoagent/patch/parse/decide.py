"""Where the text of a hunk can be read in several ways: the one that the file's lines bear out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.patch.hunk import ADD, CONTEXT, FilePatch, Hunk, Line
from repoagent.patch.locate.match import (
    EXACT,
    TRAILING_SPACE,
    WHITESPACE,
    FileIndex,
    indent_of,
    index_of,
    is_blank,
)
from repoagent.patch.problems import Misfit
from repoagent.patch.text import decode


def decided(patch: FilePatch, data: bytes) -> FilePatch:
    """`patch` with one reading of each hunk for a file that holds `data`, and with each hunk of an envelope that has
    nothing but a heading put under it. Raises Misfit where two readings are borne out, or none of several, and for a
    hunk that was meant to change something and does not."""
    if all(hunk.changes and not hunk.otherwise and not _has_only_heading(hunk) for hunk in patch.hunks):
        return patch
    text = decode(data)
    if text is None:
        return patch
    index = index_of(text.lines)
    hunks = []
    for hunk in patch.hunks:
        if patch.form == "envelope" and _has_only_heading(hunk):
            hunk = _under_heading(hunk, index)
        hunk = _reading(hunk, index, patch.form)
        _check_changes(hunk, index)
        hunks.append(hunk)
    return replace(patch, hunks=tuple(hunks))


def _check_changes(hunk: Hunk, index: FileIndex) -> None:
    """A hunk without changes says nothing if its lines are in the file, and was misread if they are not."""
    if hunk.changes or "marked-context" in hunk.tolerances:
        return
    declared = hunk.counts is not None and hunk.counts[0] != hunk.counts[1]
    if declared or not index.find([line.text for line in hunk.old if not is_blank(line.text)], WHITESPACE):
        shown = [line.text for line in hunk.old if not is_blank(line.text)]
        missing = [text for text in shown if not index.find([text], WHITESPACE)]
        if declared or missing:
            raise Misfit(
                "malformed",
                "no line of this hunk begins with `+` or `-`. Send it with a space, `-` or `+` before each line, and "
                "nothing before that.",
                hunk.number,
            )


def _reading(hunk: Hunk, index: FileIndex, form: str) -> Hunk:
    if not hunk.otherwise:
        return hunk
    first = replace(hunk, otherwise=())
    others = (replace(other, number=hunk.number) for other in hunk.otherwise)
    options = list(dict.fromkeys([first, *others]))
    for level in (EXACT, TRAILING_SPACE, WHITESPACE):
        found = [option for option in options if index.find([line.text for line in option.old], level)]
        if len(found) == 1:
            return found[0]
        if found and form != "search-replace":
            return found[0]
        if found:
            break
    if form != "search-replace":
        return _mostly_there(options, index)
    raise Misfit(
        "malformed",
        "the text of this SEARCH/REPLACE block holds a divider of its own, so it is not clear where SEARCH ends. "
        "Send the change as a unified diff.",
        hunk.number,
    )


def _mostly_there(options: Sequence[Hunk], index: FileIndex) -> Hunk:
    """Of readings that all fit nowhere as a whole the one that has most lines, and every deleted one, in the file; the
    first where that has any of its own there, or two have as many."""
    there = index.places(EXACT)

    def score(option: Hunk) -> int:
        if any(line.text not in there for line in option.deleted if not is_blank(line.text)):
            return 0
        return sum(line.text in there for line in option.old if not is_blank(line.text))

    scores = [score(option) for option in options]
    own = any(line.text in there for line in options[0].old if not is_blank(line.text))
    best = max(scores)
    return options[0] if own or not best or scores.count(best) > 1 else options[scores.index(best)]


def _has_only_heading(hunk: Hunk) -> bool:
    return bool(hunk.headings) and bool(hunk.lines) and all(line.kind == ADD for line in hunk.lines)


def _under_heading(hunk: Hunk, index: FileIndex) -> Hunk:
    """An addition without any context, right under the line that its heading quotes, if that is one line and
    nothing tells that the addition belongs further down."""
    if not _has_only_heading(hunk):
        return hunk
    rows = _headed(hunk.headings, index)
    if len(rows) != 1:
        return hunk
    row = rows[0]
    below = next((line for line in index.lines[row + 1 :] if not is_blank(line)), "")
    added = next((line.text for line in hunk.lines if not is_blank(line.text)), "")
    if below.lstrip().startswith(('"""', "'''", 'r"""')) or indent_of(below) != indent_of(added):
        return hunk
    return replace(hunk, lines=(Line(CONTEXT, index.lines[row]), *hunk.lines))


def _headed(headings: tuple[str, ...], index: FileIndex) -> list[int]:
    """The rows of the last heading, each below a row of the heading before it."""
    rows: list[int] = []
    for depth, heading in enumerate(headings):
        at = [row for row, line in enumerate(index.lines) if line.strip() == heading.strip()]
        rows = [row for row in at if row > rows[0]] if depth and rows else at
        if not rows or (depth < len(headings) - 1 and len(rows) > 1):
            return []
    return rows
