"""The outline of documents: headings of Markdown, HTML and plain text, landmarks of HTML, rules of style sheets."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from html import unescape
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from repoagent.syntax.languages import is_binary
from repoagent.syntax.parser import source_text
from repoagent.syntax.symbol import Symbol, line_range, nested_symbol, printable_line, symbols_by_level

if TYPE_CHECKING:
    import tree_sitter

    # a node to visit, the symbol that contains it, and the comments before it
    _Item: TypeAlias = tuple[tree_sitter.Node, Symbol | None, tuple[tree_sitter.Node, ...]]

_MARKDOWN_LEVEL = re.compile(r"_h(\d)_(?:marker|underline)$")


def markdown_symbols(root: tree_sitter.Node, text: bytes) -> tuple[Symbol, ...]:
    """One symbol per heading. Headings in quotations and lists do not count, because they do not divide the file. The
    sections of the grammar end too early at underlined headings, so only its headings are read."""
    headings: list[tuple[int, int, str]] = []
    pending = [root]
    while pending:
        for child in pending.pop().named_children:
            if child.type == "section":
                pending.append(child)
            elif child.type in ("atx_heading", "setext_heading"):
                levels = (_MARKDOWN_LEVEL.search(part.type) for part in child.children)
                level = next((int(match[1]) for match in levels if match), 1)
                content = child.child_by_field_name("heading_content")
                written = text[content.start_byte : content.end_byte] if content is not None else b""
                headings.append(
                    (child.start_point.row, level, printable_line(written, 120).rstrip("# ") or "(empty)")
                )
    return _heading_symbols(sorted(headings), text.count(b"\n") + (not text.endswith(b"\n")))


def _heading_symbols(headings: Sequence[tuple[int, int, str]], total: int) -> tuple[Symbol, ...]:
    items = [(row, level, name, f"{'#' * level} {name}") for row, level, name in headings]
    return symbols_by_level(items, total, "heading")


_UNDERLINED = (".rst", ".rest", ".txt", ".text")
_TEXT_NAMES = frozenset(
    {"README", "NEWS", "CHANGES", "CHANGELOG", "INSTALL", "HACKING", "TODO", "CONTRIBUTING", "COPYING"}
)
_UNDERLINE = re.compile(rb"([=\-~^\"'`#*+:.<>_])\1{2,}[ \t]*\r?$")
_LONGEST = 200  # bytes of a title
_SHORTER = 2  # characters by which an underline may be shorter than its title


def is_plain_text(path: str) -> bool:
    """Whether `path` names a text file whose headings can be found without a grammar."""
    name = path.rsplit("/", 1)[-1]
    return name.lower().endswith(_UNDERLINED) or name in _TEXT_NAMES


def text_symbols(data: bytes) -> tuple[Symbol, ...]:
    """One symbol per heading of plain text or reStructuredText, whose styles have levels in the order in which they
    appear. A heading follows a blank line, or has an overline like its underline."""
    if is_binary(data):
        return ()
    lines = source_text(data).split(b"\n")
    headings: list[tuple[int, int, str]] = []
    levels: dict[tuple[bytes, bool], int] = {}
    for row in range(1, len(lines)):
        line, title = lines[row], lines[row - 1].rstrip()
        if not title or len(title) > _LONGEST or not _UNDERLINE.match(line):
            continue
        above = lines[row - 2].rstrip() if row > 1 else b""
        overlined = bool(above) and above == line.rstrip()
        if not overlined and (above or title[:1].isspace()):
            continue
        words = printable_line(title, 120)
        if _UNDERLINE.match(title) or len(line.rstrip()) < len(words) - _SHORTER:
            continue
        level = levels.setdefault((line[:1], overlined), len(levels) + 1)
        headings.append((row - 1 - overlined, level, words))
    return _heading_symbols(headings, len(lines) - (not lines[-1]))


_SHEET_KINDS = {
    "rule_set": "selector", "media_statement": "rule", "supports_statement": "rule", "keyframes_statement": "rule",
    "at_rule": "rule",
}  # fmt: skip
_SHEET_COMMENTS = frozenset({"comment", "js_comment"})
_CLOSED = frozenset({"declaration", "string_value", "plain_value", "selectors", "keyframes_statement"})
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_BRACE = re.compile(rb"(?<!#)\{")  # of a block, not of an interpolation such as `#{$name}`
_RULE_HEAD = 1000  # bytes
_RULE_NAME = 80


def sheet_symbols(root: tree_sitter.Node, text: bytes) -> tuple[Symbol, ...]:
    """The selectors and at-rules in order, containers before their contents, with the comments directly above."""
    symbols: list[Symbol] = []
    pending: list[_Item] = [(root, None, ())]
    while pending:
        node, parent, comments = pending.pop()
        start, end = node.start_byte, node.end_byte
        kind = _SHEET_KINDS.get(node.type)
        brace = _BRACE.search(text, start, end)
        if kind is not None:
            head = text[start : brace.start() if brace else end][:_RULE_HEAD]
            head = (_COMMENT.sub(b"", head) if b"/*" in head else head).rstrip(b"; \t\r\n")
            if not head or (kind == "selector" and not brace):
                continue
            name = printable_line(head, _RULE_NAME)
            signature = name if kind == "selector" else printable_line(head)
            parent = nested_symbol(parent, name, kind, line_range(node, comments, text), signature)
            symbols.append(parent)
            brace = brace and _BRACE.search(text, brace.end(), end)
        if (not brace and node is not root) or node.type in _CLOSED:
            continue
        inside: list[_Item] = []
        comments = ()
        for child in node.named_children:
            if child.type in _SHEET_COMMENTS:
                comments = (*comments, child)
            else:
                inside.append((child, parent, comments))
                comments = ()
        pending.extend(reversed(inside))
    return tuple(symbols)


PAGES = frozenset({"html", "svelte", "vue"})
_HINTS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"id\s*=", rb"ID\s*=", rb"Id\s*=", rb"<h[1-6]\b", rb"<H[1-6]\b",
        rb"<(?:main|nav|header|footer|article|aside|form|dialog|template|script|style)\b",
    )
)  # fmt: skip
_ELEMENTS = frozenset({"element", "script_element", "style_element"})
_TAG = re.compile(rb"<[^>]*>?")
_TAG_NAME = re.compile(rb"<([A-Za-z][\w-]*)")
_ID = re.compile(rb"\s[iI][dD]\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>\"']+)")
_HEADINGS = frozenset({b"h1", b"h2", b"h3", b"h4", b"h5", b"h6"})
# With an id these are targets of links and not parts of the page: a table of contents has hundreds.
_INLINE = frozenset(
    b"a span dfn code var em strong b i u s sup sub cite abbr kbd samp small mark q bdi bdo tt font wbr".split()
)
_LANDMARKS = frozenset(b"main nav header footer article aside form dialog template script style".split())
_SECTIONS = frozenset(
    b"section article aside nav main footer header body td th li dialog template form".split()
)
_QUOTES = b"\"'"
_LANDMARK_BREAKS = 2  # least number of line breaks in a landmark without an id
_START_TAG = 2000  # bytes


class _Part(NamedTuple):
    node: tree_sitter.Node
    level: int  # of a heading; 0 for another element
    name: str


def page_symbols(root: tree_sitter.Node, text: bytes) -> tuple[Symbol, ...]:
    """The symbols of an HTML page: headings with their sections, elements with an id, and landmarks. A heading extends
    to the next one of the same or a higher level, or to the end of the enclosing section or symbol."""
    hints = sorted(match.start() for pattern in _HINTS for match in pattern.finditer(text))
    hints.append(len(text) + 1)
    parts: list[_Part] = []
    pending = [root]
    while pending:
        for child in pending.pop().children:
            start, end = child.start_byte, child.end_byte
            if child.type in _ELEMENTS and (part := _part(child, text)):
                parts.append(part)
                start += 1
            if child.type != "comment" and hints[bisect_left(hints, start)] < end:
                pending.append(child)
    parts.sort(key=lambda part: (part.node.start_byte, -part.node.end_byte))
    breaks = [match.start() for match in re.finditer(rb"\n", text)]
    symbols: list[Symbol] = []
    open_: list[tuple[int, Symbol]] = []
    for (node, level, name), end in zip(parts, _part_ends(parts, text), strict=True):
        start = node.start_byte
        while open_ and open_[-1][0] <= start:
            open_.pop()
        tag_end = text.find(b">", start, start + _START_TAG) + 1
        signature = printable_line(text[start:tag_end])
        if level:
            id_ = _ID.search(text, start, tag_end)
            shown = f' id="{printable_line(id_[1].strip(_QUOTES), 60)}"' if id_ else ""
            signature = f"<h{level}{shown}> {name}"
        stop = start + max(1, len(text[start:end].rstrip()))
        lines = node.start_point.row + 1, bisect_right(breaks, stop - 1) + 1
        kind = "heading" if level else "element"
        symbols.append(nested_symbol(open_[-1][1] if open_ else None, name, kind, lines, signature))
        open_.append((end, symbols[-1]))
    return tuple(symbols)


def _part(node: tree_sitter.Node, text: bytes) -> _Part | None:
    """An element with its name: the text of a heading, the id of another element, the tag of a landmark."""
    start = node.start_byte
    tag, end = _tag(text, start), text.find(b">", start, start + _START_TAG) + 1
    if end == 0 or not tag or tag in _INLINE:
        return None
    if tag in _HEADINGS:
        written = _TAG.sub(b"", text[end : min(node.end_byte, end + 1000)]).decode("utf-8", "replace")
        name = printable_line(unescape(written).encode(), 80).rstrip(" ¶#")
        return _Part(node, tag[1] - ord("0"), name) if name else None
    if id_ := _ID.search(text, start, end):
        return _Part(node, 0, "#" + printable_line(id_[1].strip(_QUOTES), 80))
    if tag in _LANDMARKS and text.count(b"\n", start, node.end_byte) >= _LANDMARK_BREAKS:
        return _Part(node, 0, tag.decode())
    return None


def _part_ends(parts: list[_Part], text: bytes) -> list[int]:
    """The byte at which each part ends."""
    ends: list[int] = []
    open_: list[int] = []
    for number, (node, level, _) in enumerate(parts):
        start, end = node.start_byte, node.end_byte
        while open_ and (ends[open_[-1]] <= start or 0 < level <= parts[open_[-1]].level):
            last = open_.pop()
            ends[last] = min(ends[last], start)
        if level:
            section = node.parent
            while section is not None and _tag(text, section.start_byte) not in _SECTIONS:
                section = section.parent
            end = len(text) if section is None else section.end_byte
        ends.append(min(end, ends[open_[-1]]) if open_ else end)
        open_.append(number)
    return ends


def _tag(text: bytes, start: int) -> bytes:
    match = _TAG_NAME.match(text, start)
    return match[1].lower() if match else b""
