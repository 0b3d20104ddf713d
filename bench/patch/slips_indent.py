"""Slips in the white space at the start of lines: the right bytes are those of the file's own indentation."""

from __future__ import annotations

import re

from bench.patch.draft import Draft
from bench.patch.model import ADDED, Hunk, Line
from bench.patch.slip import LINES, slip


def whitespace_added(draft: Draft) -> bool:
    """Is there an added line of nothing but white space? How much it should have after a shift is anyone's guess."""
    return any(line.kind == ADDED and line.text.isspace() for hunk in draft.hunks for line in hunk.lines)


def _texts(hunk: Hunk) -> list[Line]:
    return [line for line in hunk.lines if line.text.strip()]


def _known(hunk: Hunk) -> bool:
    """Are there two lines of the file to tell a shift by?"""
    return sum(line.kind != ADDED for line in _texts(hunk)) >= 2


@slip("dedented", LINES, "indent trailing", blur=2)
def dedented(draft: Draft) -> bool:
    """Each hunk moved left until a line of it stands at column 0."""
    if whitespace_added(draft):
        return False
    found = False
    for hunk in draft.hunks:
        lines = _texts(hunk)
        prefix = min((re.match(r"\s*", line.text)[0] for line in lines), key=len, default="")  # type: ignore[index]
        if not prefix:
            continue
        if not _known(hunk) or not all(line.text.startswith(prefix) for line in lines):
            return False
        for line in lines:
            line.text = line.text[len(prefix) :]
        found = True
    return found


@slip("indented-more", LINES, "indent trailing", blur=2)
def more(draft: Draft) -> bool:
    """All lines of all hunks four spaces (or a tab) too far right."""
    return _shift(draft, draft.rng.choice([2, 4, 8]))


@slip("indented-less", LINES, "indent trailing", blur=2)
def less(draft: Draft) -> bool:
    return _shift(draft, -draft.rng.choice([1, 2, 4]))


def _shift(draft: Draft, by: int) -> bool:
    if whitespace_added(draft):
        return False
    for hunk in draft.hunks:
        lines = _texts(hunk)
        if not _known(hunk):
            return False
        for line in lines:
            if line.text.startswith("\t") or re.match(r" *\t", line.text):
                return False
            if by < 0 and not line.text.startswith(" " * -by):
                return False
        for line in lines:
            line.text = " " * by + line.text if by > 0 else line.text[-by:]
    return bool(draft.hunks)


@slip("one-hunk-shifted", LINES, "indent trailing", blur=2)
def one_shifted(draft: Draft) -> bool:
    """One hunk is shifted, the others are as in the file."""
    if whitespace_added(draft):
        return False
    if len(draft.hunks) < 2:
        return False
    hunk = draft.rng.choice(draft.hunks)
    lines = _texts(hunk)
    if not _known(hunk) or any(line.text.startswith("\t") for line in lines):
        return False
    for line in lines:
        line.text = "    " + line.text
    return True


@slip("tabs-to-spaces", LINES, "indent trailing", blur=2)
def to_spaces(draft: Draft) -> bool:
    """A file with tabs, a diff with spaces."""
    if whitespace_added(draft):
        return False
    width = draft.rng.choice([2, 4, 4, 8])
    found = False
    for hunk in draft.hunks:
        depths = {line.kind == ADDED: 0 for line in hunk.lines}
        for line in _texts(hunk):
            head = re.match(r"\s*", line.text)
            if head is None or set(head[0]) - {"\t"}:
                return False
            depths[line.kind == ADDED] = max(depths.get(line.kind == ADDED, 0), len(head[0]))
        if depths.get(True, 0) and not depths.get(False, 0):
            return False  # nothing of the file tells how wide a tab was
        for line in _texts(hunk):
            stripped = line.text.lstrip("\t")
            depth = len(line.text) - len(stripped)
            line.text = " " * (width * depth) + stripped
            found = found or depth > 0
    return found


@slip("spaces-to-tabs", LINES, "indent trailing", blur=2)
def to_tabs(draft: Draft) -> bool:
    """A file with spaces, a diff with tabs."""
    if whitespace_added(draft):
        return False
    lines = [line for hunk in draft.hunks for line in _texts(hunk)]
    heads = [re.match(r"\s*", line.text)[0] for line in lines]  # type: ignore[index]
    if any(set(head) - {" "} for head in heads) or not any(heads):
        return False
    widths = {len(head) for head in heads if head}
    unit = min(widths)
    if unit not in (2, 4) or any(width % unit for width in widths):
        return False
    for hunk in draft.hunks:
        own = [line for line in _texts(hunk) if line.kind != ADDED and line.text.startswith(" ")]
        if not own and any(line.text.startswith(" ") for line in hunk.lines if line.kind == ADDED):
            return False
    for line, head in zip(lines, heads, strict=True):
        line.text = "\t" * (len(head) // unit) + line.text[len(head) :]
    return True


@slip("two-for-four", LINES, "indent trailing", blur=2)
def two_for_four(draft: Draft) -> bool:
    """Indented by 2 in the answer where the file has 4."""
    if whitespace_added(draft):
        return False
    lines = [line for hunk in draft.hunks for line in _texts(hunk)]
    heads = [re.match(r"\s*", line.text)[0] for line in lines]  # type: ignore[index]
    if any(set(head) - {" "} or len(head) % 4 for head in heads) or not any(heads):
        return False
    for hunk in draft.hunks:
        own = {len(line.text) - len(line.text.lstrip()) for line in _texts(hunk) if line.kind != ADDED}
        new = {len(line.text) - len(line.text.lstrip()) for line in _texts(hunk) if line.kind == ADDED}
        if len(own) < 2 or not new <= own:
            return False
    for line, head in zip(lines, heads, strict=True):
        line.text = line.text[len(head) // 2 :]
    return True


@slip("context-flush-left", LINES, "indent trailing", blur=2)
def context_flush(draft: Draft) -> bool:
    """Only the context has lost its indentation; deleted and added lines have theirs."""
    found = False
    for hunk in draft.hunks:
        if not any(line.kind == "-" and line.text.startswith((" ", "\t")) for line in hunk.lines):
            return False
        for line in hunk.lines:
            if line.kind == " " and line.text.lstrip() != line.text:
                line.text, found = line.text.lstrip(), True
    return found


@slip("deleted-flush-left", LINES, "indent trailing", blur=2)
def deleted_flush(draft: Draft) -> bool:
    """Only the deleted lines have lost theirs; what is added stands as it should."""
    found = False
    for hunk in draft.hunks:
        if not any(line.kind == " " and line.text.startswith((" ", "\t")) for line in hunk.lines):
            return False
        for line in hunk.lines:
            if line.kind == "-" and line.text.strip() and line.text.lstrip() != line.text:
                line.text, found = line.text.lstrip(), True
    return found
