"""Judge Markdown by the block tokens of markdown-it-py, plain text and reStructuredText by paragraphs.

In Markdown, a block of only anchors (`<a name="x"></a>`, `<a id="x"></a>`) right before a heading belongs to it: links
to the section lead there. In reStructuredText, a target without an address (`.. _x:`) and `.. index::` belong to the
next element, as in docutils; `.. module::` and `.. currentmodule::` belong to a title below them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bench.split.judges import Unjudged
from bench.split.marks import NOTHING, Marks

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
    opens: bool  # a directive, or ends with `::`: the indented blocks below belong to it
    level: int = 0  # of a title, else 0
    points: bool = False  # to the block below
    names: bool = False  # the module of the section below


def marks(kind: str, text: bytes) -> Marks:
    """Units: paragraphs; in rst also directives with their contents, and sections."""
    result = Marks(text, NOTHING)
    blocks = _blocks(text, kind == "rst")
    for block in blocks:
        result.unit(block.start, block.end, block.label)
    if kind != "rst":
        return result
    heads = _heads(blocks)
    for number, block in enumerate(blocks):
        after = blocks[number + 1] if number + 1 < len(blocks) else None
        if heads[number] < number and heads[number - 1] == heads[number]:
            first = blocks[number - 1]
            result.seam(first.start + 1, block.start, "orphan", block.label, (first.end - first.start, 0))
        if block.opens and after and after.indent > block.indent:
            last = number + 1
            while last + 1 < len(blocks) and blocks[last + 1].indent > block.indent:
                last += 1
            result.unit(block.start, blocks[last].end, block.label)
            begin = result.start_of(block.start)
            first = result.start_of(after.start)
            result.seam(begin + 1, first, "head", block.label, (first - begin, after.end - first))
        if block.level:
            _section(result, blocks, number, heads)
    return result


def _heads(blocks: list[_Block]) -> list[int]:
    """For each block, the number of the first block that no cut may part from it: mostly its own."""
    heads = list(range(len(blocks)))
    for number in range(len(blocks) - 2, -1, -1):
        block, below = blocks[number], number + 1
        while below < len(blocks) and block.points and blocks[below].indent > block.indent:
            below += 1  # indented blocks belong to the directive
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


def _section(marks: Marks, blocks: list[_Block], number: int, heads: list[int]) -> None:
    title = blocks[number]
    last = number
    while last + 1 < len(blocks) and not 0 < blocks[last + 1].level <= title.level:
        last += 1
    if last + 1 < len(blocks):  # blocks that point to the next title are not in this section
        last = max(number, heads[last + 1] - 1)
    marks.unit(blocks[heads[number]].start, blocks[last].end, title.label)
    if last > number:
        after = blocks[number + 1]
        marks.seam(
            title.start + 1,
            after.start,
            "head",
            title.label,
            (after.start - title.start, after.end - after.start),
        )


def _blocks(text: bytes, rst: bool) -> list[_Block]:
    """Runs of nonblank lines; a title is a block of its own."""
    blocks: list[_Block] = []
    lines: list[tuple[int, int, bytes]] = []
    levels: dict[tuple[bytes, bool], int] = {}

    def done() -> None:
        while rst and (size := _title(lines)):
            rule = lines[size - 1][2][:1], size == 3
            level = levels.setdefault(rule, len(levels) + 1)
            label = lines[size - 2][2].decode(errors="replace")
            blocks.append(_Block(lines[0][0], lines[size - 1][1], 0, label, False, level))
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
            blocks.append(
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
    return blocks


def _title(lines: list[tuple[int, int, bytes]]) -> int:
    """The number of lines of the title at the start of `lines`; 0 if there is none."""
    texts = [line[2] for line in lines[:3]]
    if len(texts) == 3 and _RULE.match(texts[0]) and texts[2][:1] == texts[0][:1] and _RULE.match(texts[2]):
        return 3
    if len(texts) >= 2 and not texts[0][:1].isspace() and _RULE.match(texts[1]) and not _RULE.match(texts[0]):
        width = len(texts[0].decode(errors="replace"))
        return 2 if len(texts[1]) >= min(width, 4) and not texts[0].startswith(b"..") else 0
    return 0


# Markdown

_FRONT = re.compile(rb"(---|\+\+\+)[ \t]*\n.*?\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
_ANCHORS = re.compile(
    rb"""(?:\s*<a\s+(?:name|id)\s*=\s*(?:"[^"]*"|'[^']*'|[\w.:-]+)\s*(?:/>|>\s*</a>|>))+\s*""", re.IGNORECASE
)
_TOKENS = {"paragraph_open", "fence", "code_block", "html_block", "bullet_list_open", "ordered_list_open",
           "list_item_open", "blockquote_open", "table_open", "tr_open", "heading_open", "hr"}  # fmt: skip


def markdown_marks(kind: str, text: bytes) -> Marks:
    """Units: sections, paragraphs, fences, lists, list items, quotations, tables and their rows, HTML blocks."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise Unjudged("markdown-it-py is not installed") from error
    result = Marks(text, NOTHING)
    front = _FRONT.match(text)
    skipped = front.end() if front else 0
    if front:
        result.unit(0, skipped, "front matter")
    body = text[skipped:].replace(b"\r\n", b" \n")
    starts = [skipped, *(skipped + line.end() for line in re.finditer(rb"\n", body))]
    starts.append(len(text))
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body.decode(errors="replace"))
    ranges: list[tuple[int, int, str, int]] = []  # start, end, type, nesting level
    headings: list[tuple[int, int, int, int]] = []  # level, start, end, index in ranges
    for token in tokens:
        if token.map is None or token.type not in _TOKENS:
            continue
        first, last = token.map
        while last > first and not text[starts[last - 1] : starts[last]].strip():
            last -= 1
        start, end = starts[first], starts[last]
        ranges.append((start, end, token.type, token.level))
        if token.type == "heading_open" and token.level == 0:
            headings.append((int(token.tag[1]), start, end, len(ranges) - 1))
        _unit(result, token.type, start, end)
    top = sorted({start for start, _, _, level in ranges if level == 0})
    sizes = {start: end - start for start, end, _, level in ranges if level == 0}
    begins = _anchored(result, ranges)
    for number, (level, start, end, _) in enumerate(headings):
        after = next((begins[one[1]] for one in headings[number + 1 :] if one[0] <= level), len(text))
        result.unit(begins[start], after, "section " + text[start:end].strip()[:50].decode(errors="replace"))
        follower = next((one for one in top if one > start), None)
        if follower is not None and follower < after:
            result.seam(start + 1, follower, "head", "heading", (follower - start, sizes[follower]))
    return result


def _anchored(marks: Marks, ranges: list[tuple[int, int, str, int]]) -> dict[int, int]:
    """Mark the anchors right before top-level headings; return their starts by the starts of the headings."""
    begins: dict[int, int] = {}
    run = -1  # start of the anchors right before, -1 if none
    for start, end, name, level in ranges:
        if level:
            continue
        if name == "heading_open":
            begins[start] = run if run >= 0 else start
            marks.seam(begins[start] + 1, start, "orphan", "anchor of a heading")
        anchors = name in ("paragraph_open", "html_block") and _ANCHORS.fullmatch(marks.text[start:end])
        run = (run if run >= 0 else start) if anchors else -1
    return begins


def _unit(marks: Marks, name: str, start: int, end: int) -> None:
    text = marks.text
    label = f"{name.removesuffix('_open')} {text[start : start + 40].strip().decode(errors='replace')}".split(
        "\n"
    )[0]
    marks.unit(start, end, label)
    second = text.find(b"\n", start, end) + 1
    if name == "fence" and second and second < end:
        marks.seam(start + 1, second, "head", "fence")
        last = text.rfind(b"\n", start, end - 1) + 1
        if last > second and text[last:end].strip()[:3] in (b"```", b"~~~"):
            marks.seam(last, last, "close", "fence")
    elif name == "table_open" and second:
        third = text.find(b"\n", second, end) + 1
        if third and third < end:
            marks.seam(start + 1, third, "head", "table")
