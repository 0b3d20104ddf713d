"""Plain text and reStructuredText: paragraphs, indented blocks, titles with their underline."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.split.marks import Marks

_NOTHING = re.compile(rb"")
_RULE = re.compile(rb"""([!-/:-@\[-`{-~])\1{2,}\s*$""")
_DIRECTIVE = re.compile(rb"\.\.(?:\s|$)")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")


@dataclass
class _Block:
    start: int
    end: int
    indent: int
    label: str
    opens: bool  # a directive, or it ends with `::`: what is indented below belongs to it
    level: int = 0  # of a title


def marks(kind: str, text: bytes) -> Marks:
    """Units: paragraphs; in rst directives with what they hold, and sections."""
    found = Marks(text, _NOTHING)
    blocks = _blocks(text, kind == "rst")
    for block in blocks:
        found.unit(block.start, block.end, block.label)
    if kind != "rst":
        return found
    for number, block in enumerate(blocks):
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        if block.opens and after and after.indent > block.indent:
            last = number + 1
            while last + 1 < len(blocks) and blocks[last + 1].indent > block.indent:
                last += 1
            found.unit(block.start, blocks[last].end, block.label)
            begin = found.start_of(block.start)
            first = found.start_of(after.start)
            found.seam(begin + 1, first, "head", block.label, (first - begin, after.end - first))
        if block.level:
            _section(found, blocks, number)
    return found


def _section(found: Marks, blocks: list[_Block], number: int) -> None:
    title = blocks[number]
    last = number
    while last + 1 < len(blocks) and not 0 < blocks[last + 1].level <= title.level:
        last += 1
    found.unit(title.start, blocks[last].end, title.label)
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
            found.append(
                _Block(lines[0][0], lines[-1][1], indent, first.strip()[:50].decode(errors="replace"), opens)
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
