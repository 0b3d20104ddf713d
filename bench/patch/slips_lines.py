"""Slips in the lines of a hunk: white space, typography, marks."""

from __future__ import annotations

import re

from bench.patch.draft import Draft
from bench.patch.model import ADDED, CONTEXT, DELETED, Hunk, Line
from bench.patch.slip import LINES, RAW, slip
from bench.patch.unique import in_file

TYPOGRAPHY = str.maketrans({"'": "\u2019", "-": "\u2013"})


@slip("blank-context-bare", RAW, "blank")
def blank_bare(draft: Draft) -> bool:
    """A blank line of context without its space."""
    found = [line for hunk in draft.hunks for line in hunk.lines if line.kind == CONTEXT and not line.text]
    for line in found:
        line.raw = ""
    return bool(found)


@slip("blank-added-bare", RAW, "blank", blur=1)
def blank_added_bare(draft: Draft) -> bool:
    """A blank line between added ones without its plus."""
    found = False
    for hunk in draft.hunks:
        for before, line, after in zip(hunk.lines, hunk.lines[1:], hunk.lines[2:], strict=False):
            if line.kind == before.kind == after.kind == ADDED and not line.text:
                line.raw, found = "", True
    return found


@slip("trailing-space-lost", LINES, "trailing")
def trailing_lost(draft: Draft) -> bool:
    """Context and deleted lines without the white space at their end. Not where that is the change."""
    for hunk in draft.hunks:
        texts = {
            kind: {line.text.rstrip() for line in hunk.lines if line.kind == kind}
            for kind in (DELETED, ADDED)
        }
        if texts[DELETED] & texts[ADDED]:
            return False
    return _old(draft, str.rstrip)


@slip("trailing-space-added", LINES, "trailing")
def trailing_added(draft: Draft) -> bool:
    return _old(draft, lambda text: text + draft.rng.choice(["", " ", "  ", "\t"]) if text else text)


def _old(draft: Draft, alter: object) -> bool:
    assert callable(alter)
    found = False
    for hunk in draft.hunks:
        for line in hunk.lines:
            if line.kind != ADDED and (text := alter(line.text)) != line.text:
                line.text, found = text, True
    if found:
        draft.blur = max(draft.blur, 2)
    return found


@slip("context-without-space", RAW, "marks blank", blur=2)
def no_space(draft: Draft) -> bool:
    """All context at column 0; nothing of it that could be taken for a mark."""
    return _unmarked(draft, 1.0)


@slip("some-context-without-space", RAW, "marks blank", blur=2)
def some_no_space(draft: Draft) -> bool:
    return _unmarked(draft, 0.4)


def _unmarked(draft: Draft, share: float) -> bool:
    found = False
    for hunk in draft.hunks:
        for line in hunk.lines:
            if line.kind == CONTEXT and line.text.strip():
                if not line.text[0].isalnum() and line.text[0] not in " \t_({[<\"'}])$@#/*.":
                    return False
                if re.match(
                    r"@@|diff |index |\.\.\.|```|#+ ?\.\.\.|\*\*\*|<<<|>>>|=======", line.text.strip()
                ):
                    return False
                if draft.rng.random() < share:
                    line.raw, found = line.text, True
    return found


@slip("smart-punctuation", LINES, "typography", blur=2)
def smart(draft: Draft) -> bool:
    """Typographic quotes and dashes in context."""
    found = False
    for line in _context(draft):
        text = re.sub(r'"([^"]*)"', "\u201c\\1\u201d", line.text).translate(TYPOGRAPHY)
        if text != line.text:
            line.text, found = text, True
    return found


@slip("no-break-spaces", LINES, "typography", blur=2)
def no_break(draft: Draft) -> bool:
    """U+00A0 for some spaces within context."""
    found = False
    for line in _context(draft):
        head = len(line.text) - len(line.text.lstrip())
        body = line.text[head:].replace(" ", "\u00a0", 1)
        if head + len(body) and body != line.text[head:]:
            line.text, found = line.text[:head] + body, True
    return found


@slip("html-escaped", LINES, "html typography", blur=2)
def html(draft: Draft) -> bool:
    """The whole diff escaped as a web page does."""
    return _escaped(draft, {"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@slip("html-escaped-quotes", LINES, "html typography", blur=2)
def html_quotes(draft: Draft) -> bool:
    return _escaped(draft, {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def _escaped(draft: Draft, table: dict[str, str | int | None]) -> bool:
    lines = [line for hunk in draft.hunks for line in hunk.lines]
    if any(re.search(r"&[#\w]+;", line.text) for line in lines):
        return False  # what is meant by it could not be told
    tells = False
    for line in lines:
        text = line.text.translate(str.maketrans(table))
        tells = tells or (text != line.text and line.kind != ADDED)
        line.text = text
    return tells and all(any(_html(line) for line in hunk.lines if line.kind != ADDED) or not any(
        _html(line) for line in hunk.lines) for hunk in draft.hunks)  # fmt: skip


def _html(line: Line) -> bool:
    return "&" in line.text


@slip("equal-pairs", LINES, "pairs")
def equal_pairs(draft: Draft) -> bool:
    """A line of context deleted and added again."""
    found = False
    for hunk in draft.hunks:
        picked = [
            n
            for n, line in enumerate(hunk.lines)
            if line.kind == CONTEXT and line.text.strip() and not line.bare_end
        ]
        for number in sorted(draft.rng.sample(picked, min(2, len(picked))), reverse=True):
            line = hunk.lines[number]
            lost = not in_file(draft, line)
            draft.may_refuse = draft.may_refuse or lost  # what isn't there can't be deleted
            hunk.lines[number : number + 1] = [Line(DELETED, line.text, line.row), Line(ADDED, line.text)]
            found = True
    return found


@slip("added-before-deleted", LINES, "order")
def added_first(draft: Draft) -> bool:
    """`+` lines above the `-` lines that they replace."""
    found = False
    for hunk in draft.hunks:
        lines: list[Line] = []
        rest = hunk.lines
        while rest:
            deleted = _leading(rest, DELETED)
            added = _leading(rest[len(deleted) :], ADDED)
            taken = len(deleted) + len(added)
            if deleted and added and not any(line.bare_end for line in rest[:taken]):
                lines, found = lines + added + deleted, True
            else:
                taken = max(taken, 1)
                lines += rest[:taken]
            rest = rest[taken:]
        hunk.lines = lines
    return found


def _leading(lines: list[Line], kind: str) -> list[Line]:
    count = next((n for n, line in enumerate(lines) if line.kind != kind), len(lines))
    return lines[:count]


@slip("interleaved", LINES, "order")
def interleaved(draft: Draft) -> bool:
    """`-a +b -c +d` where `-a -c +b +d` was meant, line by line."""
    found = False
    for hunk in draft.hunks:
        lines, rest = [], hunk.lines
        while rest:
            deleted = _leading(rest, DELETED)
            added = _leading(rest[len(deleted) :], ADDED)
            taken = max(len(deleted) + len(added), 1)
            if len(deleted) == len(added) > 1 and not any(line.bare_end for line in rest[:taken]):
                lines += [line for pair in zip(deleted, added, strict=True) for line in pair]
                found = True
            else:
                lines += rest[:taken]
            rest = rest[taken:]
        hunk.lines = lines
    return found


@slip("marks-spaced", RAW, "marks", blur=2)
def spaced(draft: Draft) -> bool:
    """`+ x` for `+x`: a space after each mark, context too."""
    lines = [line for hunk in draft.hunks for line in hunk.lines]
    for line in lines:
        line.raw = f"{line.kind} {line.text}" if line.text else line.kind
    draft.may_refuse = True
    return bool(lines) and not any(line.kind == ADDED and line.text.isspace() for line in lines)


@slip("bare-end-lost", LINES, "end")
def marker_lost(draft: Draft) -> bool:
    """No final newline, and no word of it."""
    found = False
    for part in draft.parts:
        before, after = part.change.before, part.change.after
        for line in (line for hunk in part.hunks for line in hunk.lines if line.bare_end):
            if not (before and after) or before.final_newline != after.final_newline:
                return False
            line.bare_end, found = False, True
    return found


@slip("bare-end-misplaced", LINES, "end")
def marker_misplaced(draft: Draft) -> bool:
    """The marker below the last line of a hunk that doesn't reach the end of the file."""
    for part in draft.parts:
        before = part.change.before
        hunk = part.hunks[-1] if part.hunks else None
        if hunk and before and before.final_newline and part.change.after and part.change.after.final_newline:
            last = hunk.lines[-1]
            if last.kind == CONTEXT and last.row is not None and last.row < len(before.lines) - 3:
                last.bare_end = True
                return True
    return False


def _context(draft: Draft) -> list[Line]:
    return [line for hunk in draft.hunks for line in hunk.lines if line.kind == CONTEXT and line.raw is None]


def adjacent(hunk: Hunk, number: int) -> bool:
    """Does this line stand beside a changed one?"""
    return any(line.kind != CONTEXT for line in hunk.lines[max(0, number - 1) : number + 2])
