"""Plain text and reStructuredText: paragraphs, indented blocks, titles with their underline.

A target that names no address (`.. _x:`) and `.. index::` point at what is below them (docutils gives them to the next
element), so no cut parts them from it. `.. module::` and `.. currentmodule::` do so where a title is below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.split.marks import Marks

_NOTHING = re.compile(rb"")
_RULE = re.compile(rb"""([!-/:-@\[-`{-~])\1{2,}\s*$""")
_DIRECTIVE = re.compile(rb"\.\.(?:\s|$)")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_POINTS = re.compile(rb"\.\.\s+(?:_(?:`[^`]+`|(?:[^:\\]|\\.)+):\s*$|index::)|__\s*$")
_NAMES = re.compile(rb"\.\.\s+(?:\w+:)?(?:current)?module::")


@dataclass
class _Block:
    start: int
    end: int
    indent: int
    label: str
    opens: bool  # a directive, or it ends with `::`: what is indented below belongs to it
    level: int = 0  # of a title
    points: bool = False  # at the block below
    names: bool = False  # the module that the section below is about


def marks(kind: str, text: bytes) -> Marks:
    """Units: paragraphs; in rst directives with what they hold, and sections."""
    found = Marks(text, _NOTHING)
    blocks = _blocks(text, kind == "rst")
    for block in blocks:
        found.unit(block.start, block.end, block.label)
    if kind != "rst":
        return found
    heads = _heads(blocks)
    for number, block in enumerate(blocks):
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        if heads[number] < number and heads[number - 1] == heads[number]:
            first = blocks[number - 1]
            found.seam(first.start + 1, block.start, "orphan", block.label, (first.end - first.start, 0))
        if block.opens and after and after.indent > block.indent:
            last = number + 1
            while last + 1 < len(blocks) and blocks[last + 1].indent > block.indent:
                last += 1
            found.unit(block.start, blocks[last].end, block.label)
            begin = found.start_of(block.start)
            first = found.start_of(after.start)
            found.seam(begin + 1, first, "head", block.label, (first - begin, after.end - first))
        if block.level:
            _section(found, blocks, number, heads)
    return found


def _heads(blocks: list[_Block]) -> list[int]:
    """Of each block the first of those that belong to it, or to what it belongs to itself: its own number for most."""
    heads = list(range(len(blocks)))
    for number in range(len(blocks) - 2, -1, -1):
        block, below = blocks[number], number + 1
        while below < len(blocks) and block.points and blocks[below].indent > block.indent:
            below += 1  # what is indented belongs to the directive
        if below < len(blocks) and blocks[below].indent == block.indent and _sticks(blocks, number, below):
            for each in range(number, below + 1):
                heads[each] = number
            after = below + 1
            while after < len(blocks) and heads[after] == below:
                heads[after] = number
                after += 1
    return heads


def _sticks(blocks: list[_Block], number: int, below: int) -> bool:
    if blocks[number].points:
        return True
    while below < len(blocks) and (blocks[below].points or blocks[below].names):
        below += 1
    return blocks[number].names and below < len(blocks) and blocks[below].level > 0


def _section(found: Marks, blocks: list[_Block], number: int, heads: list[int]) -> None:
    title = blocks[number]
    last = number
    while last + 1 < len(blocks) and not 0 < blocks[last + 1].level <= title.level:
        last += 1
    if last + 1 < len(blocks):  # what points at the next title is no part of this section
        last = max(number, heads[last + 1] - 1)
    found.unit(blocks[heads[number]].start, blocks[last].end, title.label)
    if last > number:
        after = blocks[number + 1]
        found.seam(
            title.start + 1,
            after.start,
            "head",
            title.label,
            (after.start - title.start, after.end - after.start),
        )


def _blocks(text: bytes, rst: bool) -> list[_Block]:
    """Runs of lines that are not blank; a title is a block of its own."""
    found: list[_Block] = []
    lines: list[tuple[int, int, bytes]] = []
    levels: dict[tuple[bytes, bool], int] = {}

    def done() -> None:
        while rst and (size := _title(lines)):
            rule = lines[size - 1][2][:1], size == 3
            level = levels.setdefault(rule, len(levels) + 1)
            label = lines[size - 2][2].decode(errors="replace")
            found.append(_Block(lines[0][0], lines[size - 1][1], 0, label, False, level))
            del lines[:size]
        if lines:
            first, last = lines[0][2], lines[-1][2]
            indent = len(first) - len(first.lstrip())
            opens = bool(_DIRECTIVE.match(first.lstrip())) or last.rstrip().endswith(b"::")
            label = first.strip()[:50].decode(errors="replace")
            margin = [line[2] for line in lines if not line[2][:1].isspace()]
            points = bool(margin) and all(map(_POINTS.match, margin))
            names = (
                not points
                and bool(margin)
                and all(_POINTS.match(each) or _NAMES.match(each) for each in margin)
            )
            found.append(
                _Block(lines[0][0], lines[-1][1], indent, label, opens, 0, rst and points, rst and names)
            )
        lines.clear()

    for line in _LINE.finditer(text):
        stripped = line[0].rstrip()
        if stripped:
            lines.append((line.start(), line.end(), stripped))
        else:
            done()
    done()
    return found


def _title(lines: list[tuple[int, int, bytes]]) -> int:
    """How many lines the title takes that `lines` begin with."""
    texts = [line[2] for line in lines[:3]]
    if len(texts) == 3 and _RULE.match(texts[0]) and texts[2][:1] == texts[0][:1] and _RULE.match(texts[2]):
        return 3
    if len(texts) >= 2 and not texts[0][:1].isspace() and _RULE.match(texts[1]) and not _RULE.match(texts[0]):
        width = len(texts[0].decode(errors="replace"))
        return 2 if len(texts[1]) >= min(width, 4) and not texts[0].startswith(b"..") else 0
    return 0
