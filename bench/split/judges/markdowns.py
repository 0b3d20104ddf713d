"""Markdown by markdown-it-py's block tokens, which know their lines.

A block of nothing but anchors (`<a name="x"></a>`, `<a id="x"></a>`) right before a heading is where links to that
section lead: it belongs to the heading, and no cut parts them.
"""

from __future__ import annotations

import re

from bench.split.judges import Unjudged
from bench.split.marks import Marks

_NOTHING = re.compile(rb"")
_FRONT = re.compile(rb"(---|\+\+\+)[ \t]*\n.*?\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
_ANCHORS = re.compile(
    rb"""(?:\s*<a\s+(?:name|id)\s*=\s*(?:"[^"]*"|'[^']*'|[\w.:-]+)\s*(?:/>|>\s*</a>|>))+\s*""", re.IGNORECASE
)
_BLOCKS = {"paragraph_open", "fence", "code_block", "html_block", "bullet_list_open", "ordered_list_open",
           "list_item_open", "blockquote_open", "table_open", "tr_open", "heading_open", "hr"}  # fmt: skip


def marks(kind: str, text: bytes) -> Marks:
    """Units: sections, paragraphs, fences, lists, list items, quotations, tables and their rows, HTML blocks."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise Unjudged("markdown-it-py is not installed") from error
    found = Marks(text, _NOTHING)
    front = _FRONT.match(text)
    skipped = front.end() if front else 0
    if front:
        found.unit(0, skipped, "front matter")
    body = text[skipped:].replace(b"\r\n", b" \n")
    starts = [skipped, *(skipped + line.end() for line in re.finditer(rb"\n", body))]
    starts.append(len(text))
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(body.decode(errors="replace"))
    ranges: list[tuple[int, int, str, int]] = []  # start, end, type, nesting level
    headings: list[tuple[int, int, int, int]] = []  # level, start, end, index in ranges
    for token in tokens:
        if token.map is None or token.type not in _BLOCKS:
            continue
        first, last = token.map
        while last > first and not text[starts[last - 1] : starts[last]].strip():
            last -= 1
        start, end = starts[first], starts[last]
        ranges.append((start, end, token.type, token.level))
        if token.type == "heading_open" and token.level == 0:
            headings.append((int(token.tag[1]), start, end, len(ranges) - 1))
        _unit(found, token.type, start, end)
    top = sorted({start for start, _, _, level in ranges if level == 0})
    sizes = {start: end - start for start, end, _, level in ranges if level == 0}
    begins = _anchored(found, ranges)
    for number, (level, start, end, _) in enumerate(headings):
        after = next((begins[one[1]] for one in headings[number + 1 :] if one[0] <= level), len(text))
        found.unit(begins[start], after, "section " + text[start:end].strip()[:50].decode(errors="replace"))
        follower = next((one for one in top[_index(top, start) + 1 :]), None)
        if follower is not None and follower < after:
            found.seam(start + 1, follower, "head", "heading", (follower - start, sizes[follower]))
    return found


def _anchored(found: Marks, ranges: list[tuple[int, int, str, int]]) -> dict[int, int]:
    """Where the anchors of each top heading begin, by its start; no cut from there to the heading is good."""
    begins: dict[int, int] = {}
    run = -1  # where the anchors begin that are right before
    for start, end, name, level in ranges:
        if level:
            continue
        if name == "heading_open":
            begins[start] = run if run >= 0 else start
            found.seam(begins[start] + 1, start, "orphan", "anchor of a heading")
        anchors = name in ("paragraph_open", "html_block") and _ANCHORS.fullmatch(found.text[start:end])
        run = (run if run >= 0 else start) if anchors else -1
    return begins


def _index(top: list[int], start: int) -> int:
    from bisect import bisect_left

    return bisect_left(top, start)


def _unit(found: Marks, name: str, start: int, end: int) -> None:
    text = found.text
    label = f"{name.removesuffix('_open')} {text[start : start + 40].strip().decode(errors='replace')}".split(
        "\n"
    )[0]
    found.unit(start, end, label)
    second = text.find(b"\n", start, end) + 1
    if name == "fence" and second and second < end:
        found.seam(start + 1, second, "head", "fence")
        last = text.rfind(b"\n", start, end - 1) + 1
        if last > second and text[last:end].strip()[:3] in (b"```", b"~~~"):
            found.seam(last, last, "close", "fence")
    elif name == "table_open" and second:
        third = text.find(b"\n", second, end) + 1
        if third and third < end:
            found.seam(start + 1, third, "head", "table")
