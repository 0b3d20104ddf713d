"""Parse SEARCH/REPLACE blocks and whole-file fences."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from repoagent.patch.errors import PatchError
from repoagent.patch.model import ADD, CONTEXT, DELETE, FilePatch, Hunk, Line
from repoagent.patch.parse.blocks import Block
from repoagent.patch.parse.fences import name_in_comment
from repoagent.patch.parse.markers import DIVIDER, REPLACE, SEARCH
from repoagent.patch.render import differing

_CONFLICT = re.compile(r"<{7} (?!SEARCH|ORIGINAL)\S|<{7}$")
_CONFLICT_END = re.compile(r">{7} (?!REPLACE|UPDATED)\S|>{7}$")
_START = re.compile(r":start_line:[ \t]*(\d{1,9})[ \t]*$")
_END = re.compile(r":end_line:[ \t]*\d{1,9}[ \t]*$")
_MOST_DIVIDERS = 40


def parse_search_replace(block: Block, inherited: str | None, known: Collection[str] = ()) -> list[FilePatch]:
    """The blocks in order, adjacent ones of a file as one patch. A block without a name is for the file of the previous
    block (`inherited` for the first).

    A text that contains a divider line is read in every possible way; the file decides (see `Hunk.otherwise`). Raises
    PatchError for markers out of order, and for a block without an end.
    """
    patches: list[FilePatch] = []
    hunks: list[Hunk] = []
    name = block.name or inherited
    body: list[str] | None = None
    opening = before = ""
    current = name

    def close() -> None:
        if hunks:
            patches.append(FilePatch(None, current, "search-replace", hunks=tuple(hunks)))
            hunks.clear()

    for line in (line.removesuffix("\r") for line in block.lines):
        if SEARCH.match(line):
            if body is not None:
                raise _broken(name)
            body, opening, name = [], line, name_in_comment(before, known) or name
        elif REPLACE.match(line):
            if body is None:
                raise _broken(name)
            if name != current:
                close()
            current = name
            hunks.append(replace(_hunk(body, opening, name), number=len(hunks) + 1))
            body = None
        elif body is not None:
            body.append(line)
        before = line if line.strip() else before
    if body is not None:
        raise PatchError(
            "cut-off",
            f"the SEARCH/REPLACE block for {name or 'a file'} has no end marker. Send it again in full.",
        )
    close()
    return patches


def _broken(name: str | None) -> PatchError:
    return PatchError(
        "malformed",
        f"the markers of a SEARCH/REPLACE block for {name or 'a file'} are out of order, "
        "or its text contains such a marker. Send that change as a unified diff instead.",
    )


def _hunk(body: Sequence[str], opening: str, name: str | None) -> Hunk:
    """The text between the markers as a hunk, with all its readings."""
    start, body = _numbered(body)
    dividers = _dividers(body, opening)
    if not dividers or len(dividers) > _MOST_DIVIDERS:
        raise _broken(name)
    if len(dividers) == 1:
        row = dividers[0]
        return replace(_changed(body[:row], body[row + 1 :]), start=start)
    # A divider that comes in again is more likely a slip than meant.
    rows = dividers[len(dividers) // 2 :]
    hunks = [replace(_changed(body[:row], body[row + 1 :]), start=start) for row in rows]
    return replace(hunks[0], otherwise=tuple(hunks))


def _numbered(body: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """The line number that some tools have written first in a block, and the text after it."""
    at, start = 0, None
    while at < min(2, len(body)) and (_START.match(body[at]) or _END.match(body[at])):
        found = _START.match(body[at])
        start = int(found[1]) if found else start
        at += 1
    if at and at < len(body) and re.fullmatch(r"-{5,9}\s*", body[at]):
        at += 1
    return start, body[at:]


def _dividers(body: Sequence[str], opening: str) -> list[int]:
    """The rows that can part SEARCH from REPLACE: not those inside a conflict of the text's own, and those as long
    as the opening marker before others."""
    rows: list[int] = []
    inner = 0
    last = max((row for row, line in enumerate(body) if _CONFLICT_END.match(line)), default=-1)
    for row, line in enumerate(body):
        if row < last and _CONFLICT.match(line):
            inner += 1
        elif _CONFLICT_END.match(line) and inner:
            inner -= 1
        elif not inner and DIVIDER.match(line):
            rows.append(row)
    length = len(opening) - len(opening.lstrip(opening[0]))
    same = [row for row in rows if len(body[row].rstrip()) == length]
    return same or rows


def _changed(search: Sequence[str], replacement: Sequence[str]) -> Hunk:
    """The same as a hunk: lines equal on both sides are context, so that they keep the file's bytes."""
    lines: list[Line] = []
    at = 0
    for i1, i2, j1, j2 in differing(search, replacement):
        lines += [Line(CONTEXT, text) for text in search[at:i1]]
        lines += [Line(DELETE, text) for text in search[i1:i2]]
        lines += [Line(ADD, text) for text in replacement[j1:j2]]
        at = i2
    lines += [Line(CONTEXT, text) for text in search[at:]]
    return Hunk(tuple(lines))


def parse_whole(block: Block) -> FilePatch:
    """A fence that holds a complete file."""
    lines = [line.removesuffix("\r") for line in block.lines]
    whole = "".join(f"{line}\n" for line in lines)
    return FilePatch(None, block.name, "whole-file", whole=whole, cut=not block.closed)
