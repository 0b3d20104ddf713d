"""What an XML element is called, how its start reads, and which ones of a drawing are none worth a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.split.symbols.names import clean

if TYPE_CHECKING:
    import tree_sitter

# The tag in a start tag, and what follows it up to its end.
_START = re.compile(rb"<([^\s<>/=\"']+)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_TITLE = re.compile(rb"\s(?:xml:id|id|ID|Id|name|Name|NAME)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_CHILD = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(name|id|artifactId|title|key)>\s*([^<>]{1,60}?)\s*</\1>", re.DOTALL
)
_WIDTH = 100
_SHAPES = frozenset(
    {
        b"path", b"rect", b"circle", b"ellipse", b"line", b"polygon", b"polyline", b"use", b"text", b"tspan", b"stop",
        b"image", b"g", b"a", b"animate", b"set", b"desc", b"linearGradient",
    }
)  # fmt: skip
_DRAWING = re.compile(rb"<svg[\s>]")
_HEAD = 4000


def element_name(node: tree_sitter.Node, text: bytes, inner: bool) -> str:
    """`tag`, or `tag#id` where it has an id or a name, or is called by what it holds first: `<name>x</name>`. "" for
    what has no proper start tag. Read from the text: asking the tree takes several times as long."""
    start = _START.match(text, node.start_byte, node.end_byte)
    if start is None:
        return ""
    called = clean(start[1], 80)
    title = _TITLE.search(start[2]) or (_CHILD.match(text, start.end(), node.end_byte) if inner else None)
    value = (title[2] or title[1] or b"") if title else b""
    return f"{called}#{clean(value, 60)}" if value.strip() else called


def start_tag(node: tree_sitter.Node, text: bytes) -> str:
    """The start tag on one line; all of a short element on one line."""
    begin, end = node.start_byte, node.end_byte
    if end - begin <= _WIDTH and text.find(b"\n", begin, end) < 0:
        return clean(text[begin:end])
    start = _START.match(text, begin, end)
    return clean(text[begin : start.end() if start else min(end, begin + 400)][:1000])


def is_drawing(text: bytes) -> bool:
    """Whether it is an SVG file."""
    return _DRAWING.search(text, 0, _HEAD) is not None


def is_shape(node: tree_sitter.Node, text: bytes) -> bool:
    """Whether an element of a drawing is a shape without an id: there are thousands, and nobody knows them."""
    start = _START.match(text, node.start_byte, node.end_byte)
    return start is not None and start[1] in _SHAPES and not _TITLE.search(start[2])
