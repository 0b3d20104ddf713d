"""The outline of data files: keys of JSON and YAML, elements of XML, list entries by their names.

The text is read directly where possible, because parsing it is several times slower and a data file has a key on every
line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from repoagent.syntax.symbol import Symbol, line_range, nested_symbol, printable_line

if TYPE_CHECKING:
    import tree_sitter

LANGUAGES_WITH_KEYS = frozenset({"json", "yaml", "xml"})
_LEVELS = 2
_DEPTHS = (8, 3, 2, 1)  # limits on levels; the first that does not give too many symbols is used
_OPENED = 8192  # bytes: larger values are opened below the first two levels
_UNNAMED = 1000  # bytes: larger list entries without a name are shown by their position
_MOST = 10_000  # symbols

# The keys that name an entry, the best one first.
_TITLES = (b"name", b"id", b"key", b"title", b"alert", b"record", b"job_name", b"slug", b"path", b"label")
_ANY_TITLE = b"|".join(_TITLES)
_JSON_TITLE = re.compile(rb'"(' + _ANY_TITLE + rb')"\s*:\s*("(?:[^"\\\n]|\\.)*"|\d+)')
_YAML_TITLE = re.compile(
    rb"[\"']?(" + _ANY_TITLE + rb")[\"']?[ \t]*:[ \t]+(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'{}\[\]|>&*,#][^\n,}]*)"
)
_REACH = 400  # bytes at the start of an entry to search for its name
_ENTRY_LINES = 6  # and lines in YAML
_KIND = re.compile(rb"^kind:[ \t]*([\w.-]+)", re.MULTILINE)
_META = re.compile(rb"^metadata:[ \t]*\r?\n((?:[ \t]+[^\n]*\n?)+)", re.MULTILINE)
_META_NAME = re.compile(rb"^[ \t]+name:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_TOP_NAME = re.compile(rb"^(?:name|id|key|title):[ \t]+[\"']?([^\n\"'#]+)", re.MULTILINE)


def _flow_title(text: bytes, start: int, end: int, pattern: re.Pattern[bytes]) -> str:
    """The name in a flow mapping such as `{id: "x", …}`; "" if there is none before the first nested value."""
    if text[start : start + 1] != b"{":
        return ""
    stop = min(end, start + _REACH)
    inner = text.find(b"{", start + 1, stop)
    return _best_title({m[1]: m[2] for m in pattern.finditer(text, start, inner if inner > 0 else stop)})


def _yaml_title(written: bytes, column: int) -> str:
    """The name in the first lines of a YAML list entry, which starts with its dash in `column`."""
    dash = written[: len(written) - len(written.lstrip(b"- \t"))]
    if written[len(dash) : len(dash) + 1] == b"{":
        return _flow_title(written, len(dash), len(written), _YAML_TITLE)
    if b"\n" in dash:
        dash, column = dash[dash.rfind(b"\n") + 1 :], 0
    titles: dict[bytes, bytes] = {}
    for number, line in enumerate(written.split(b"\n")[:_ENTRY_LINES]):
        content = line.lstrip(b"- \t") if number == 0 else line.lstrip(b" ")
        if number and len(line) - len(content) != column + len(dash):
            continue
        if match := _YAML_TITLE.match(content):
            titles.setdefault(match[1], match[2])
    return _best_title(titles)


def _best_title(titles: dict[bytes, bytes]) -> str:
    for name in _TITLES:
        value = titles.get(name, b"").strip()
        if value[:1] in (b'"', b"'") and value[-1:] == value[:1]:
            value = value[1:-1]
        else:
            value = value.split(b" #", 1)[0].rstrip()
        if value:
            return printable_line(value, 80)
    return ""


def _document_title(text: bytes, number: int) -> str:
    """The name of one of several YAML documents: `Deployment/web`, otherwise its name or its position."""
    kind, meta = _KIND.search(text), _META.search(text)
    name = _META_NAME.search(meta[1]) if meta else None
    if kind and name:
        return f"{printable_line(kind[1], 60)}/{printable_line(name[1], 80)}"
    top = _TOP_NAME.search(text)
    return printable_line(top[1], 80) if top else f"[{number}]"


# A start tag: its name, and the attributes.
_START_TAG = re.compile(rb"<([^\s<>/=\"']+)((?:[^<>\"']|\"[^\"]*\"|'[^']*')*)>")
_ID = re.compile(rb"\s(?:xml:id|id|ID|Id|name|Name|NAME)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_NAME_CHILD = re.compile(
    rb"\s*(?:<!--(?:(?!-->).)*-->\s*)*<(name|id|artifactId|title|key)>\s*([^<>]{1,60}?)\s*</\1>", re.DOTALL
)
_WIDTH = 100


def _element(text: bytes, end: int, tag: re.Match[bytes], *, inner: bool) -> tuple[str, str]:
    """The name of an element, `tag` or `tag#id` with its id, name or first child such as `<name>x</name>`; and its
    head: the start tag, or the whole element if it is a short line."""
    begin = tag.start()
    title = _ID.search(tag[2]) or (_NAME_CHILD.match(text, tag.end(), end) if inner else None)
    value = (title[2] or title[1] or b"") if title else b""
    name = printable_line(tag[1], 80) + (f"#{printable_line(value, 60)}" if value.strip() else "")
    short = end - begin <= _WIDTH and text.find(b"\n", begin, end) < 0
    return name, printable_line(text[begin : end if short else tag.end()][:1000])


_COMMENTS = frozenset({"comment", "Comment"})
_TRANSPARENT = frozenset(
    {
        "document", "object", "array", "stream", "block_node", "block_mapping", "block_sequence", "flow_node",
        "flow_mapping", "flow_sequence", "content", "ERROR",
    }
)  # fmt: skip
_PAIRS = frozenset({"pair", "block_mapping_pair", "flow_pair"})
_LISTS = frozenset({"array", "block_sequence", "flow_sequence"})
_JSON_KEY = re.compile(rb'("(?:[^"\\\n]|\\.)*"|[\w$]+)\s*:\s*(?=[^\s/])')
_YAML_LEAF = re.compile(rb"([\w.$@/-]+|\"[^\"\\\n]*\"|'[^'\n]*')[ \t]*:[ \t]+[^\s{\[&!*?|>#]")
_LONG_HEAD = 100  # bytes; for a longer line of a key with content, only the key is the head


class _Item(NamedTuple):
    """A node to visit, with the comments before it, the enclosing symbol, and its position in a list (or -1)."""

    node: tree_sitter.Node
    level: int
    comments: tuple[tree_sitter.Node, ...]
    parent: Symbol | None
    entry: int = -1


def key_symbols(root: tree_sitter.Node, language: str, text: bytes) -> tuple[Symbol, ...]:
    """The keys, elements and named entries in order, containers before their contents."""
    if (
        language == "yaml" and root.type == "ERROR"
    ):  # a template, or more than the 32,767 lines that the grammar counts
        return ()
    symbols: tuple[Symbol, ...] = ()
    for deepest in _DEPTHS:
        symbols = _collect(root, language, text, deepest)
        if len(symbols) < _MOST:
            break
    return symbols


def _collect(root: tree_sitter.Node, language: str, text: bytes, deepest: int) -> tuple[Symbol, ...]:
    symbols: list[Symbol] = []
    pending = [_Item(root, 0, (), None)]

    def add(item: _Item, kind: str, name: str, head: str) -> Symbol:
        symbols.append(
            nested_symbol(item.parent, name, kind, line_range(item.node, item.comments, text), head or name)
        )
        return symbols[-1]

    while pending and len(symbols) < _MOST:
        item = pending.pop()
        node, level, parent = item.node, item.level, item.parent
        type_, start, end = node.type, node.start_byte, node.end_byte
        opens = level + 1 < deepest and (level + 1 < _LEVELS or end - start > _OPENED)
        if type_ in _PAIRS:
            key, value = _key_and_value(node, language, text)
            if not key or (value is None and level >= _LEVELS):
                continue  # skip plain values in deep levels
            newline = text.find(b"\n", start, start + 400)
            line = text[start : min(end, start + 400 if newline < 0 else newline)]
            if value is not None and len(line) > _LONG_HEAD:
                line = key + b":"
            plain = key[1:-1] if len(key) > 1 and key[:1] == key[-1:] and key[:1] in (b'"', b"'") else key
            symbol = add(item, "key", printable_line(plain, 80), printable_line(line).rstrip("{;,[ "))
            if value is not None and opens:
                comments = tuple(c for c in node.named_children if c.type in _COMMENTS)
                pending.append(_Item(value, level + 1, comments, symbol))
        elif type_ == "element":
            tag = _START_TAG.match(text, start, end)
            name, head = _element(text, end, tag, inner=level > 0) if tag else ("", "")
            if name and level >= _LEVELS and "#" not in name and end - start < _UNNAMED:
                continue
            if name:
                parent = add(item, "element", name, head)
            if opens:
                pending.extend(_Item(child, level + 1, (), parent) for child in reversed(node.named_children))
        elif item.entry >= 0 and type_ == "document":
            name = _document_title(text[start:end], item.entry)
            symbol = add(item, "entry", name, f"--- {name}")
            pending.extend(reversed(_children(item._replace(comments=(), parent=symbol))))
        elif item.entry >= 0:
            if language == "json" or text[start : start + 1] == b"{":
                title = _flow_title(text, start, end, _JSON_TITLE if language == "json" else _YAML_TITLE)
            else:
                title = _yaml_title(text[start : min(end, start + _REACH)], node.start_point[1])
            if not title and end - start < _UNNAMED:
                continue
            name = title or f"[{item.entry}]"
            symbol = add(item, "entry", name, _entry_head(text, start, end, name))
            if end - start > _OPENED and level + 1 < deepest:
                inner = node.named_children if type_ == "block_sequence_item" else [node]
                pending.extend(_Item(child, level + 1, (), symbol) for child in reversed(inner))
        elif type_ in _TRANSPARENT:
            pending.extend(reversed(_children(item)))
    return tuple(symbols)


def _children(item: _Item) -> list[_Item]:
    """The children of a node that is not a symbol. A document is an entry if there are several."""
    items: list[_Item] = []
    children = item.node.named_children
    type_, comments = item.node.type, item.comments
    listed = type_ in _LISTS or (type_ == "stream" and sum(c.type == "document" for c in children) > 1)
    for child in children:
        kind = child.type
        if kind in _COMMENTS:
            comments = (*comments, child)
        elif kind == "prolog":
            comments = tuple(part for part in child.named_children if part.type in _COMMENTS)
        elif kind != "CharData":
            items.append(_Item(child, item.level, comments, item.parent, len(items) if listed else -1))
            comments = ()
    return items


def _entry_head(text: bytes, start: int, end: int, name: str) -> str:
    """The first line of a YAML entry; in JSON its name."""
    if text[start : start + 1] == b"{":
        return name
    newline = text.find(b"\n", start, start + _REACH)
    return printable_line(text[start : min(end, start + _REACH if newline < 0 else newline)], 120).rstrip(
        "{[, "
    )


def _key_and_value(
    node: tree_sitter.Node, language: str, text: bytes
) -> tuple[bytes, tree_sitter.Node | None]:
    """The key as written, and its value if that has content."""
    if language == "json":
        if match := _JSON_KEY.match(text, node.start_byte, node.end_byte):
            opens = text[match.end() : match.end() + 1] in (b"{", b"[")
            return match[1], node.named_children[-1] if opens else None
    elif match := _YAML_LEAF.match(text, node.start_byte, node.end_byte):
        return match[1], None
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is None:
        return b"", None
    if value is not None and (language == "json" or value.type == "flow_node"):
        opening = text[value.start_byte : value.start_byte + 1]
        value = value if opening in (b"{", b"[", b"&", b"!") else None
    return text[key.start_byte : key.end_byte], value
