"""Parse the formats other than unified diffs: envelopes, SEARCH/REPLACE blocks and whole files."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.patch.errors import PatchError
from repoagent.patch.model import ADD, CONTEXT, DELETE, FilePatch, Hunk, Line
from repoagent.patch.parse.markers import DIVIDER, REPLACE, SEARCH, directive
from repoagent.patch.parse.unified import read_hunk, sent_with_crlf
from repoagent.patch.paths import name_in_comment
from repoagent.patch.render import differing

if TYPE_CHECKING:
    from repoagent.patch.parse.blocks import Block

_ACTIONS = {"Add File": "create", "Update File": "edit", "Delete File": "delete"}


def parse_envelope(lines: Sequence[str], *, closed: bool) -> list[FilePatch]:
    """The patches of a `*** Begin Patch` / `*** End Patch` envelope of `apply_patch` tools. `closed`: its fence is
    closed, or more text follows.

    Raises PatchError for changes before the first file.
    """
    if sent_with_crlf(lines):
        lines = [line.removesuffix("\r") for line in lines]
    patches: list[FilePatch] = []
    hunks: list[Hunk] = []
    begun = ended = False
    at = 0
    while at < len(lines):
        line = lines[at]
        keyword, name = directive(line)
        if keyword == "Begin Patch":
            begun, ended = True, False
        elif keyword == "End Patch":
            ended = True
        elif keyword in _ACTIONS:
            _add_hunks(patches, hunks)
            patches.append(FilePatch(name, name, "envelope", _ACTIONS[keyword]))
        elif keyword == "Move to" and patches:
            patches[-1] = replace(patches[-1], new=name, action="rename")
        elif keyword == "End of File":
            pass
        elif patches and not ended and (line.startswith(("@@", " ", "+", "-")) or (line.strip() and hunks)):
            hunk, at = read_hunk(lines, at, len(hunks) + 1, envelope=True)
            if hunk.lines:
                hunks.append(hunk)
            continue
        elif line.startswith(("+", "-", "@@")) and begun and not ended:
            raise PatchError(
                "malformed",
                "the patch has changes before its first `*** Update File:` line. Name the file that they change.",
            )
        at += 1
    _add_hunks(patches, hunks)
    if patches and begun and not ended:
        patches[-1] = replace(patches[-1], cut=not closed)
    return patches


def _add_hunks(patches: list[FilePatch], hunks: list[Hunk]) -> None:
    if patches and hunks:
        patches[-1] = replace(patches[-1], hunks=tuple(hunks))
        hunks.clear()


_CONFLICT = re.compile(r"<{7} (?!SEARCH|ORIGINAL)\S|<{7}$")
_CONFLICT_END = re.compile(r">{7} (?!REPLACE|UPDATED)\S|>{7}$")
_LINE_NUMBER = re.compile(r":(?:start|end)_line:[ \t]*\d{1,9}[ \t]*$")
_MOST_DIVIDERS = 40


def parse_search_replace(block: Block, inherited: str | None, known: Collection[str] = ()) -> list[FilePatch]:
    """The SEARCH/REPLACE blocks in order, adjacent ones of a file as one patch. A block without a name is for the file
    of the previous block (`inherited` for the first).

    A text that contains a divider line is read in every possible way; the file decides (see `Hunk.alternatives`).
    Raises PatchError for markers out of order, and for a block without an end marker.
    """
    sections: list[tuple[str | None, list[Hunk]]] = []
    name = block.name or inherited
    body: list[str] | None = None
    opening = before = ""
    for line in (line.removesuffix("\r") for line in block.lines):
        if SEARCH.match(line):
            if body is not None:
                raise _broken(name)
            body, opening, name = [], line, name_in_comment(before, known) or name
        elif REPLACE.match(line):
            if body is None:
                raise _broken(name)
            if not sections or sections[-1][0] != name:
                sections.append((name, []))
            hunks = sections[-1][1]
            hunks.append(replace(_search_replace_hunk(body, opening, name), number=len(hunks) + 1))
            body = None
        elif body is not None:
            body.append(line)
        before = line if line.strip() else before
    if body is not None:
        raise PatchError(
            "cut-off",
            f"the SEARCH/REPLACE block for {name or 'a file'} has no end marker. Send it again in full.",
        )
    return [FilePatch(None, name, "search-replace", hunks=tuple(hunks)) for name, hunks in sections]


def _broken(name: str | None) -> PatchError:
    return PatchError(
        "malformed",
        f"the markers of a SEARCH/REPLACE block for {name or 'a file'} are out of order, "
        "or its text contains such a marker. Send that change as a unified diff instead.",
    )


def _search_replace_hunk(body: Sequence[str], opening: str, name: str | None) -> Hunk:
    """The text between the markers as a hunk, with all its readings."""
    at = 0
    while at < min(2, len(body)) and _LINE_NUMBER.match(body[at]):
        at += 1
    if at and at < len(body) and re.fullmatch(r"-{5,9}\s*", body[at]):
        at += 1
    body = body[at:]
    # Ignore dividers inside a conflict in the text; prefer dividers that are as long as the opening marker.
    dividers: list[int] = []
    depth = 0
    last = max((row for row, line in enumerate(body) if _CONFLICT_END.match(line)), default=-1)
    for row, line in enumerate(body):
        if row < last and _CONFLICT.match(line):
            depth += 1
        elif _CONFLICT_END.match(line) and depth:
            depth -= 1
        elif not depth and DIVIDER.match(line):
            dividers.append(row)
    length = len(opening) - len(opening.lstrip(opening[0]))
    dividers = [row for row in dividers if len(body[row].rstrip()) == length] or dividers
    if not dividers or len(dividers) > _MOST_DIVIDERS:
        raise _broken(name)
    # A repeated divider is more likely a mistake than intended.
    rows = dividers[len(dividers) // 2 :]
    hunks = [_as_hunk(body[:row], body[row + 1 :]) for row in rows]
    return replace(hunks[0], alternatives=tuple(hunks)) if len(dividers) > 1 else hunks[0]


def _as_hunk(search: Sequence[str], replacement: Sequence[str]) -> Hunk:
    """SEARCH and REPLACE as a hunk: lines that are equal on both sides are context, so they keep the file's bytes."""
    lines: list[Line] = []
    at = 0
    for i1, i2, j1, j2 in differing(search, replacement):
        lines += [Line(CONTEXT, text) for text in search[at:i1]]
        lines += [Line(DELETE, text) for text in search[i1:i2]]
        lines += [Line(ADD, text) for text in replacement[j1:j2]]
        at = i2
    lines += [Line(CONTEXT, text) for text in search[at:]]
    return Hunk(tuple(lines))
