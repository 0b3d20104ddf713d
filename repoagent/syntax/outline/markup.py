"""Outlines of Markdown, text without a grammar, style sheets, and the names of XML elements.

Markdown needs own code because the sections of its grammar end too early at underlined headings; style sheets because
they have a rule in every third line. Text without a grammar has underlined headings (reStructuredText) or `== Title`
(AsciiDoc).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.syntax.languages import is_binary
from repoagent.syntax.outline.symbol import Symbol, clean
from repoagent.syntax.parser import source_text

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
_TAG_HEAD = 4000


def element_name(node: tree_sitter.Node, text: bytes, inner: bool) -> str:
    """`tag`, or `tag#id` with its id, its name, or its first child such as `<name>x</name>`; "" without a valid start
    tag. Reads the text, since the tree is several times slower."""
    start = _START.match(text, node.start_byte, node.end_byte)
    if start is None:
        return ""
    called = clean(start[1], 80)
    title = _TITLE.search(start[2]) or (_CHILD.match(text, start.end(), node.end_byte) if inner else None)
    value = (title[2] or title[1] or b"") if title else b""
    return f"{called}#{clean(value, 60)}" if value.strip() else called


def start_tag(node: tree_sitter.Node, text: bytes) -> str:
    """The start tag on one line, or the whole element if it is a short line."""
    begin, end = node.start_byte, node.end_byte
    if end - begin <= _WIDTH and text.find(b"\n", begin, end) < 0:
        return clean(text[begin:end])
    start = _START.match(text, begin, end)
    return clean(text[begin : start.end() if start else min(end, begin + 400)][:1000])


def is_drawing(text: bytes) -> bool:
    """Whether it is an SVG file."""
    return _DRAWING.search(text, 0, _TAG_HEAD) is not None


def is_shape(node: tree_sitter.Node, text: bytes) -> bool:
    """Whether an element of a drawing is a shape without an id, of which there are thousands."""
    start = _START.match(text, node.start_byte, node.end_byte)
    return start is not None and start[1] in _SHAPES and not _TITLE.search(start[2])


_LEVEL = re.compile(r"_h(\d)_(?:marker|underline)$")


def headings(text: bytes, tree: tree_sitter.Tree) -> tuple[Symbol, ...]:
    """One symbol per heading; it reaches to the line before the next heading of its level or above.

    Only sections are opened: a heading in a quotation or a list divides that and not the file.
    """
    found: list[tuple[int, int, str]] = []
    pending = [tree.root_node]
    while pending:
        for child in pending.pop().named_children:
            if child.type == "section":
                pending.append(child)
            elif child.type in ("atx_heading", "setext_heading"):
                levels = (_LEVEL.search(part.type) for part in child.children)
                level = next((int(found_level[1]) for found_level in levels if found_level), 1)
                named = child.child_by_field_name("heading_content")
                written = text[named.start_byte : named.end_byte] if named is not None else b""
                found.append((child.start_point.row, level, clean(written, 120).rstrip("# ") or "(empty)"))
    return sections(sorted(found), text.count(b"\n") + (not text.endswith(b"\n")))


def sections(found: Sequence[tuple[int, int, str]], total: int) -> tuple[Symbol, ...]:
    """Symbols from headings (row from 0, level from 1, title), in order, of a text of `total` lines."""
    ends = [total] * len(found)
    waiting: list[tuple[int, int]] = []
    for place, (row, level, _) in enumerate(found):
        while waiting and waiting[-1][1] >= level:
            ends[waiting.pop()[0]] = row
        waiting.append((place, level))
    symbols: list[Symbol] = []
    open_: list[tuple[int, str]] = []
    for last, (row, level, name) in zip(ends, found, strict=True):
        while open_ and open_[-1][0] >= level:
            open_.pop()
        path = ".".join([*(held for _, held in open_), name])
        symbols.append(
            Symbol(name, "heading", path, row + 1, max(last, row + 1), "#" * level + " " + name, len(open_))
        )
        open_.append((level, name))
    return tuple(symbols)


_UNDERLINED = (".rst", ".rest", ".txt", ".text")
_ASCIIDOC = (".adoc", ".asciidoc", ".asc")
_NAMES = frozenset(
    {"README", "NEWS", "CHANGES", "CHANGELOG", "INSTALL", "HACKING", "TODO", "CONTRIBUTING", "COPYING"}
)
_LINE = re.compile(rb"([=\-~^\"'`#*+:.<>_])\1{2,}[ \t]*\r?$")
_EQUALS = re.compile(rb"(={1,6})[ \t]+(\S.*)")
_FENCE = re.compile(rb"(-{4,}|\.{4,}|={4,}|\+{4,}|/{4,}|```+)[ \t]*\r?$")
_LONGEST = 200  # a title in bytes
_LACKING = 2  # characters that an underline may be too short


def is_plain_text(path: str) -> bool:
    """Whether the file is text whose headings are found without a grammar, judging by its name."""
    name = path.rsplit("/", 1)[-1]
    return name.lower().endswith(_UNDERLINED + _ASCIIDOC) or name in _NAMES


def underlined(path: str, data: bytes) -> tuple[Symbol, ...]:
    """One symbol per heading. As in reStructuredText, the order in which styles of underlines appear determines their
    levels; a heading follows a blank line, or has an overline like its underline."""
    if is_binary(data):
        return ()
    lines = source_text(data).split(b"\n")
    found = _asciidoc(lines) if path.lower().endswith(_ASCIIDOC) else _lined(lines)
    return sections(found, len(lines) - (not lines[-1]))


def _lined(lines: list[bytes]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    levels: dict[tuple[bytes, bool], int] = {}
    for row in range(1, len(lines)):
        line, title = lines[row], lines[row - 1].rstrip()
        if line[:1] not in _MARKS or not title or len(title) > _LONGEST or not _LINE.match(line):
            continue
        above = lines[row - 2].rstrip() if row > 1 else b""
        over = bool(above) and above == line.rstrip()
        if (above and not over) or _LINE.match(title) or (title[:1].isspace() and not over):
            continue
        words = clean(title, 120)
        if len(line.rstrip()) < len(words) - _LACKING:
            continue
        level = levels.setdefault((line[:1], over), len(levels) + 1)
        found.append((row - 2 if over else row - 1, level, words))
    return found


_MARKS = frozenset(bytes((c,)) for c in b"=-~^\"'`#*+:.<>_")


def _asciidoc(lines: list[bytes]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    fence = b""
    for row, line in enumerate(lines):
        if match := _FENCE.match(line):
            fence = b"" if fence == match[1] else fence or match[1]
        elif not fence and (match := _EQUALS.match(line)):
            found.append((row, len(match[1]), clean(match[2], 120)))
    return found


if TYPE_CHECKING:
    from typing import TypeAlias

    import tree_sitter

    _Pending: TypeAlias = tuple[tree_sitter.Node, Symbol | None, tuple[tree_sitter.Node, ...]]

_RULES = {
    "rule_set": "selector", "media_statement": "rule", "supports_statement": "rule", "keyframes_statement": "rule",
    "at_rule": "rule", "mixin_statement": "macro", "function_statement": "function",
}  # fmt: skip
_COMMENTS = frozenset({"comment", "js_comment", "single_line_comment"})
_CLOSED = frozenset({"declaration", "string_value", "plain_value", "selectors", "keyframes_statement"})
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_CALLED = re.compile(rb"@(?:mixin|function)\s+([\w-]+)")
_RULE_HEAD = 1000  # bytes
_NAME = 80
_HASH = ord("#")


def sheet_symbols(root: tree_sitter.Node, text: bytes) -> tuple[Symbol, ...]:
    """Selectors and at-rules in order, containers before their contents; a comment directly above one belongs to
    it."""
    symbols: list[Symbol] = []
    pending: list[_Pending] = [(root, None, ())]
    while pending:
        node, holder, notes = pending.pop()
        type_, start, end = node.type, node.start_byte, node.end_byte
        kind = _RULES.get(type_)
        opening = _brace(text, start, end)
        if kind is not None:
            head = text[start : end if opening < 0 else opening][:_RULE_HEAD]
            head = (_COMMENT.sub(b"", head) if b"/*" in head else head).rstrip(b"; \t\r\n")
            if not head or (kind == "selector" and opening < 0):
                continue
            name = clean(called[1] if (called := _CALLED.match(head)) else head, _NAME)
            signature = name if kind == "selector" else clean(head)
            first, last = _rows(node, notes, text)
            path, depth = name, 0
            if holder is not None:
                first, last = max(first, holder.first_line), min(last, holder.last_line)
                path, depth = f"{holder.qualified_name}.{name}", holder.depth + 1
            holder = Symbol(name, kind, path, first, max(first, last), signature, depth)
            symbols.append(holder)
            opening = _brace(text, opening + 1, end) if opening >= 0 else -1
        if (opening < 0 and node is not root) or type_ in _CLOSED:
            continue
        inside: list[_Pending] = []
        run: tuple[tree_sitter.Node, ...] = ()
        for child in node.named_children:
            if child.type in _COMMENTS:
                run = (*run, child)
            else:
                inside.append((child, holder, run))
                run = ()
        pending.extend(reversed(inside))
    return tuple(symbols)


def _brace(text: bytes, start: int, end: int) -> int:
    """The next brace that opens a block, not an interpolation such as `#{$name}`; -1 if there is none."""
    at = text.find(b"{", start, end)
    while at > start and text[at - 1] == _HASH:
        at = text.find(b"{", at + 1, end)
    return at


def _rows(node: tree_sitter.Node, notes: tuple[tree_sitter.Node, ...], text: bytes) -> tuple[int, int]:
    (first, column), last = node.start_point, node.end_point[0]
    start = node.start_byte
    for note in reversed(notes):
        (begins, at), (ends, _) = note.start_point, note.end_point
        if text[start - column : start].strip() or ends != first - 1 or at != column:
            break
        if text[note.start_byte - at : note.start_byte].strip():
            break
        first, start = begins, note.start_byte
    return first + 1, last + 1
