"""Outline an HTML page: headings with their sections, landmarks, elements with an id."""

from __future__ import annotations

import re
from bisect import bisect_right
from html import unescape
from typing import TYPE_CHECKING

from repoagent.syntax.outline.symbol import Symbol, clean

if TYPE_CHECKING:
    import tree_sitter

    from repoagent.syntax.outline.walk import Definition

_TAG = re.compile(rb"<[^>]*>?")
_NAME = re.compile(rb"<([A-Za-z][\w-]*)")
_ID = re.compile(rb"\s[iI][dD]\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"']+)")
_HEADINGS = frozenset({b"h1", b"h2", b"h3", b"h4", b"h5", b"h6"})
# With an id they are a place to jump to and not a part of the page: a table of contents has hundreds.
_INLINE = frozenset(
    b"a span dfn code var em strong b i u s sup sub cite abbr kbd samp small mark q bdi bdo tt font wbr".split()
)
_LANDMARKS = frozenset(b"main nav header footer article aside form dialog template script style".split())
_SECTIONS = frozenset(
    b"section article aside nav main footer header body td th li dialog template form".split()
)
_LINES = 3  # at least, for a landmark without an id
_START = 2000  # bytes of a start tag


def page_part(text: bytes, node: tree_sitter.Node) -> tuple[str, str]:
    """The kind of an element, "" if it is not a symbol, and its name: the text of a heading, the id of another element,
    the tag of a landmark. Reads the text, since the tree is ten times slower."""
    start = node.start_byte
    tag = _tag(text, start)
    end = text.find(b">", start, start + _START) + 1
    if end == 0 or not tag:
        return "", ""
    if tag in _HEADINGS:
        return "heading", _words(text[end : min(node.end_byte, end + 1000)])
    if tag in _INLINE:
        return "", ""
    if found := _ID.search(text, start, end):
        return "element", "#" + clean(_value(found[1]), 80)
    if tag in _LANDMARKS and text.count(b"\n", start, node.end_byte) >= _LINES - 1:
        return "element", tag.decode()
    return "", ""


def page_symbols(found: list[Definition], text: bytes) -> tuple[Symbol, ...]:
    """The symbols of a page. A heading extends to the next one of its level or above, or to the end of its section or
    of the enclosing element with an id."""
    ends = [one.node.end_byte for one in found]
    levels = [text[one.node.start_byte + 2] - 48 if one.kind == "heading" else 0 for one in found]
    sections: dict[int, int] = {}
    around: list[int] = []  # elements that are open, outermost first
    waiting: list[int] = []  # headings whose end is not known, outermost first
    for number, one in enumerate(found):
        start = _begin(one.node, text) if levels[number] else one.node.start_byte
        while around and found[around[-1]].node.end_byte <= start:
            around.pop()
        while waiting and (
            ends[waiting[-1]] <= start
            or 0 < levels[number] <= levels[waiting[-1]]
            or one.node.end_byte > ends[waiting[-1]]
        ):
            last = waiting.pop()
            within = (
                n for n in around if n > last
            )  # elements that begin below the heading and end beyond its part
            stop = min(start, *(found[n].node.start_byte for n in within), ends[last])
            ends[last] = max(found[last].node.end_byte, stop)
        if levels[number]:
            holders = [_inner_end(found[around[-1]].node)] if around else []
            ends[number] = min(_section_end(one.node, text, sections), *holders, len(text))
            waiting.append(number)
        else:
            around.append(number)
    return _nested(found, ends, text)


def _nested(found: list[Definition], ends: list[int], text: bytes) -> tuple[Symbol, ...]:
    breaks = [match.start() for match in re.finditer(rb"\n", text)]
    symbols: list[Symbol] = []
    holders: list[tuple[int, Symbol]] = []
    for one, end in zip(found, ends, strict=True):
        while holders and holders[-1][0] < max(end, one.node.start_byte + 1):
            holders.pop()
        holder = holders[-1][1] if holders else None
        row = one.node.start_point[0]
        stop = end
        while stop > one.node.start_byte + 1 and text[stop - 1 : stop].isspace():
            stop -= 1
        last = max(row, bisect_right(breaks, stop - 1))
        name = one.parts[-1]
        path = f"{holder.qualified_name}.{name}" if holder else name
        depth = holder.depth + 1 if holder else 0
        last = min(last + 1, holder.last_line) if holder else last + 1
        symbols.append(Symbol(name, one.kind, path, row + 1, max(row + 1, last), _head(one, text), depth))
        holders.append((end, symbols[-1]))
    return tuple(symbols)


def _section_end(node: tree_sitter.Node, text: bytes, known: dict[int, int]) -> int:
    """The end of the section that contains a heading, before its end tag; `known` caches it by node id."""
    holder = node.parent
    while holder is not None and _tag(text, holder.start_byte) not in _SECTIONS:
        holder = holder.parent
    if holder is None:
        return len(text)
    if holder.id not in known:
        known[holder.id] = _inner_end(holder)
    return known[holder.id]


def _inner_end(node: tree_sitter.Node) -> int:
    last = node.child(node.child_count - 1) if node.child_count else None
    return last.start_byte if last is not None and last.type == "end_tag" else node.end_byte


def _begin(node: tree_sitter.Node, text: bytes) -> int:
    """The start of the section of a heading: before elements that wrap the heading only."""
    start, holder = node.start_byte, node.parent
    while holder is not None and holder.type == "element" and _tag(text, holder.start_byte) not in _SECTIONS:
        first = text.find(b">", holder.start_byte, start) + 1
        if not first or text[first:start].strip():
            break
        start, holder = holder.start_byte, holder.parent
    return start


def _tag(text: bytes, start: int) -> bytes:
    match = _NAME.match(text, start)
    return match[1].lower() if match else b""


def _value(written: bytes) -> bytes:
    return written.strip(b"\"'")


def _words(markup: bytes) -> str:
    return clean(unescape(_TAG.sub(b"", markup).decode("utf-8", "replace")).encode(), 80).rstrip(" ¶#")


def _head(one: Definition, text: bytes) -> str:
    """`<h2 id="x"> One two`, and the start tag of another."""
    start = one.node.start_byte
    end = text.find(b">", start, start + _START) + 1
    if one.kind != "heading":
        return clean(text[start:end])
    found = _ID.search(text, start, end)
    marked = f' id="{clean(_value(found[1]), 60)}"' if found else ""
    return f"<h{chr(text[start + 2])}{marked}> {one.parts[-1]}"
