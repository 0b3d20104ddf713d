"""Outline data files: keys of JSON and YAML, elements of XML, list entries by their names.

Two levels, and more inside of large ones. `yaml_lines` reads YAML by indentation where its grammar fails: templates,
and files of more than 32,767 lines, which the grammar counts with 16 bits.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from repoagent.dataclass import dataclass
from repoagent.syntax.outline.markup import element_name, is_drawing, is_shape, start_tag
from repoagent.syntax.outline.symbol import Symbol, clean

if TYPE_CHECKING:
    import tree_sitter

# The keys that call an entry by its name, the best one first.
_TITLES = (b"name", b"id", b"key", b"title", b"alert", b"record", b"job_name", b"slug", b"path", b"label")
_WORDS = b"|".join(_TITLES)
_JSON_TITLE = re.compile(rb'"(' + _WORDS + rb')"\s*:\s*("(?:[^"\\\n]|\\.)*"|\d+)')
_YAML_TITLE = re.compile(
    rb"[\"']?(" + _WORDS + rb")[\"']?[ \t]*:[ \t]+(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'{}\[\]|>&*,#][^\n,}]*)"
)
_JSON_PAIR = re.compile(rb'[{\s]*("(?:[^"\\\n]|\\.)*"\s*:\s*(?:"(?:[^"\\\n]|\\.){0,80}"?|[^\s{\[,}"]+))')
_REACH = 400  # bytes from the begin of an entry in which its name is looked for
_WITHIN = 6  # lines of a YAML entry
_KIND = re.compile(rb"^kind:[ \t]*([\w.-]+)", re.MULTILINE)
_META = re.compile(rb"^metadata:[ \t]*\r?\n((?:[ \t]+[^\n]*\n?)+)", re.MULTILINE)
_META_NAME = re.compile(rb"^[ \t]+name:[ \t]*[\"']?([^\s\"'#]+)", re.MULTILINE)
_TOP_NAME = re.compile(rb"^(?:name|id|key|title):[ \t]+[\"']?([^\n\"'#]+)", re.MULTILINE)


def entry_title(node: tree_sitter.Node, text: bytes, language: str) -> str:
    """The name of a list entry that is a mapping, before anything nested, else "": `{"name": "x", …}`, `- id: x`. Reads
    the text, since the tree is too slow for ten thousand entries."""
    start = node.start_byte
    flow = text[start : start + 1] == b"{"
    if language == "json" or flow:
        return _flow_title(text, start, node.end_byte, _JSON_TITLE if language == "json" else _YAML_TITLE)
    return yaml_title(text[start : min(node.end_byte, start + _REACH)], node.start_point[1])


def _flow_title(text: bytes, start: int, end: int, pattern: re.Pattern[bytes]) -> str:
    if text[start : start + 1] != b"{":
        return ""
    stop = min(end, start + _REACH)
    nested = text.find(b"{", start + 1, stop)
    return _best({m[1]: m[2] for m in pattern.finditer(text, start, nested if nested > 0 else stop)})


def flow_title(text: bytes, start: int, end: int) -> str:
    """The name in an object with unquoted keys: `{id: "x", …}`."""
    return _flow_title(text, start, end, _YAML_TITLE)


def yaml_title(written: bytes, column: int) -> str:
    """The name in the first lines of a YAML list entry, `written` from its dash in `column`."""
    dash = written[: len(written) - len(written.lstrip(b"- \t"))]
    if written[len(dash) : len(dash) + 1] == b"{":
        return _flow_title(written, len(dash), len(written), _YAML_TITLE)
    if b"\n" in dash:
        dash = dash[dash.rfind(b"\n") + 1 :]
        column = 0
    found: dict[bytes, bytes] = {}
    inside = column + len(dash)
    for number, line in enumerate(written.split(b"\n")[:_WITHIN]):
        bare = line.lstrip(b"- \t") if number == 0 else line.lstrip(b" ")
        if number and len(line) - len(bare) != inside:
            continue
        if match := _YAML_TITLE.match(bare):
            found.setdefault(match[1], match[2])
    return _best(found)


def _best(found: dict[bytes, bytes]) -> str:
    for name in _TITLES:
        value = found.get(name, b"").strip()
        if value[:1] in (b'"', b"'") and value[-1:] == value[:1]:
            value = value[1:-1]
        else:
            value = value.split(b" #", 1)[0].rstrip()
        if value:
            return clean(value, 80)
    return ""


def first_pair(node: tree_sitter.Node, text: bytes, name: str, titled: bool) -> str:
    """The start of a list entry: its line in YAML; its name in JSON, with its first key if the name is a position."""
    start = node.start_byte
    if text[start : start + 1] == b"{":
        pair = None if titled else _JSON_PAIR.match(text, start + 1, min(node.end_byte, start + _REACH))
        return f"{name} {clean(pair[1], 80)}" if pair else name
    stop = text.find(b"\n", start, start + _REACH)
    return clean(text[start : min(node.end_byte, start + _REACH if stop < 0 else stop)], 120).rstrip("{[, ")


def document_title(text: bytes, place: int) -> str:
    """The name of one of several YAML documents: `Deployment/web` from its kind and metadata, else its name, else its
    position."""
    kind, meta = _KIND.search(text), _META.search(text)
    named = _META_NAME.search(meta[1]) if meta else None
    if kind and named:
        return f"{clean(kind[1], 60)}/{clean(named[1], 80)}"
    top = _TOP_NAME.search(text)
    return clean(top[1], 80) if top else f"[{place}]"


LANGUAGES_WITH_KEYS = frozenset({"json", "yaml", "xml"})
LEVELS = 2
DEPTHS = (8, 3, 2, 1)  # levels at most; the first that does not come to too many
OPENED = 8192  # bytes: what is larger is opened beyond the first two levels
UNNAMED = 1000  # bytes: a list entry without a name is one by its place when it is larger
MOST_KEYS = 10_000  # more help nobody
_COMMENTS = frozenset({"comment", "Comment"})
_THROUGH = frozenset(
    {
        "document", "object", "array", "stream", "block_node", "block_mapping", "block_sequence", "flow_node",
        "flow_mapping", "flow_sequence", "content", "ERROR",
    }
)  # fmt: skip
_PAIRS = frozenset({"pair", "block_mapping_pair", "flow_pair"})
_LISTS = frozenset({"array", "block_sequence", "flow_sequence"})
_JSON_KEY = re.compile(rb'("(?:[^"\\\n]|\\.)*"|[\w$]+)\s*:\s*(?=[^\s/])')
_YAML_LEAF = re.compile(rb"([\w.$@/-]+|\"[^\"\\\n]*\"|'[^'\n]*')[ \t]*:[ \t]+[^\s{\[&!*?|>#]")
_LONG_HEAD = 100  # bytes: of a longer line of a key that holds something, the key is the head


class _Place(NamedTuple):
    """A node to visit: `notes` are the comments before it, `holder` is the enclosing symbol, `entry` the position in a
    list (-1 if none)."""

    node: tree_sitter.Node
    level: int
    notes: tuple[tree_sitter.Node, ...]
    holder: Symbol | None
    entry: int = -1


def key_symbols(root: tree_sitter.Node, language: str, text: bytes) -> tuple[Symbol, ...]:
    """The keys, elements and named entries in order, containers before their contents.

    They are made here and not by way of what other languages share: a data file has one in each line.
    """
    if language == "yaml" and root.type == "ERROR":  # a template, or more rows than the grammar can count
        return yaml_lines(text)
    symbols: tuple[Symbol, ...] = ()
    for deepest in DEPTHS:
        symbols = _collect(root, language, text, deepest)
        if len(symbols) < MOST_KEYS:
            break
    return symbols


def _collect(root: tree_sitter.Node, language: str, text: bytes, deepest: int) -> tuple[Symbol, ...]:
    symbols: list[Symbol] = []
    drawing = language == "xml" and is_drawing(text)
    pending = [_Place(root, 0, (), None)]
    while pending and len(symbols) < MOST_KEYS:
        place = pending.pop()
        node, level = place.node, place.level
        type_ = node.type
        if type_ in _PAIRS:
            key, value = _key_and_value(node, language, text)
            if not key or (value is None and level >= LEVELS):
                continue  # deep down a plain value is no landmark
            symbols.append(
                _symbol(place, "key", clean(unquoted(key), 80), _head(node, key, value, text), text)
            )
            if value is not None and _opens(node, level, deepest):
                inner = tuple(c for c in node.named_children if c.type in _COMMENTS)
                pending.append(_Place(value, level + 1, inner, symbols[-1]))
        elif type_ == "element":
            holder = place.holder
            if drawing and level and is_shape(node, text):
                continue
            if name := element_name(node, text, level > 0):
                if level >= LEVELS and "#" not in name and node.end_byte - node.start_byte < UNNAMED:
                    continue
                symbols.append(_symbol(place, "element", name, start_tag(node, text), text))
                holder = symbols[-1]
            if _opens(node, level, deepest):
                pending.extend(
                    _Place(child, level + 1, (), holder) for child in reversed(node.named_children)
                )
        elif place.entry >= 0 and type_ == "document":
            name = document_title(text[node.start_byte : node.end_byte], place.entry)
            symbols.append(_symbol(place, "entry", name, f"--- {name}", text))
            pending.extend(reversed(_inside(place._replace(notes=(), holder=symbols[-1]))))
        elif place.entry >= 0:
            title = entry_title(node, text, language)
            if not title and node.end_byte - node.start_byte < UNNAMED:
                continue
            name = title or f"[{place.entry}]"
            symbols.append(_symbol(place, "entry", name, first_pair(node, text, name, bool(title)), text))
            if node.end_byte - node.start_byte > OPENED and level + 1 < deepest:
                pending.extend(
                    _Place(child, level + 1, (), symbols[-1])
                    for child in reversed(node.named_children if type_ == "block_sequence_item" else [node])
                )
        elif type_ in _THROUGH:
            pending.extend(reversed(_inside(place)))
    return tuple(symbols)


def _opens(node: tree_sitter.Node, level: int, deepest: int) -> bool:
    return level + 1 < deepest and (level + 1 < LEVELS or node.end_byte - node.start_byte > OPENED)


def _inside(place: _Place) -> list[_Place]:
    """The children of a node that is not a symbol itself, with the comments before each; each document is an entry."""
    inside: list[_Place] = []
    children = place.node.named_children
    type_, run = place.node.type, place.notes
    listed = type_ in _LISTS or (type_ == "stream" and sum(c.type == "document" for c in children) > 1)
    for child in children:
        kind = child.type
        if kind in _COMMENTS:
            run = (*run, child)
        elif kind == "prolog":
            run = tuple(part for part in child.named_children if part.type in _COMMENTS)
        elif kind != "CharData":
            inside.append(_Place(child, place.level, run, place.holder, len(inside) if listed else -1))
            run = ()
    return inside


def _symbol(place: _Place, kind: str, name: str, signature: str, text: bytes) -> Symbol:
    node, holder = place.node, place.holder
    (first, column), (last, end) = node.start_point, node.end_point
    if end == 0 and last > first:
        last -= 1
    for note in reversed(place.notes):
        (begins, at), (ends, _) = note.start_point, note.end_point
        line = text[text.rfind(b"\n", 0, note.start_byte) + 1 : note.start_byte]
        if ends != first - 1 or at != column or line.strip():
            break
        first = begins
    if holder is None:
        return Symbol(name, kind, name, first + 1, last + 1, signature or name, 0)
    first, last = max(first + 1, holder.first_line), min(last + 1, holder.last_line)
    path = f"{holder.qualified_name}.{name}"
    return Symbol(name, kind, path, first, max(first, last), signature or name, holder.depth + 1)


def _head(node: tree_sitter.Node, key: bytes, value: tree_sitter.Node | None, text: bytes) -> str:
    """The line of a key, or the key alone if its line is long and it has content."""
    start = node.start_byte
    stop = text.find(b"\n", start, start + 400)
    stop = min(node.end_byte, start + 400 if stop < 0 else stop)
    if value is not None and stop - start > _LONG_HEAD:
        return clean(key) + ":"
    return clean(text[start:stop]).rstrip("{;,[ ")


def unquoted(text: bytes) -> bytes:
    return text[1:-1] if len(text) > 1 and text[:1] == text[-1:] and text[:1] in (b'"', b"'") else text


def _key_and_value(
    node: tree_sitter.Node, language: str, text: bytes
) -> tuple[bytes, tree_sitter.Node | None]:
    """The key as written, and its value if that has content. Mostly read from the text, since the tree is several times
    slower."""
    if language == "json":
        if match := _JSON_KEY.match(text, node.start_byte, node.end_byte):
            holds = text[match.end() : match.end() + 1] in (b"{", b"[")
            return match[1], node.named_children[-1] if holds else None
    elif match := _YAML_LEAF.match(text, node.start_byte, node.end_byte):
        return match[1], None
    key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
    if key is None:
        return b"", None
    if value is not None and (language == "json" or value.type == "flow_node"):
        opening = text[value.start_byte : value.start_byte + 1]
        value = value if opening in (b"{", b"[", b"&", b"!") else None
    return text[key.start_byte : key.end_byte], value


_KEY = re.compile(
    rb"(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'#{}\[\]&*!|>%@`,-][^\n#{}\[\]\"']*?)[ \t]*:(?=[ \t]|\r?$)"
)
_DASH = re.compile(rb"([ ]*)-(?=[ \t]|\r?$)")
_BLOCK = re.compile(rb"[|>][+-]?\d?[+-]?[ \t]*(?:#.*)?\r?$")
_BLANK = re.compile(rb"\s*(?:#|\r?$|\{\{|%)")
_LEVELS, _DEPTHS = 2, (8, 3, 2, 1)  # as `keys.py` has them, and these
_OPENED = 8192
_MOST = 10_000
_BYTE_ORDER_MARK = "\ufeff".encode()


@dataclass(slots=True)
class _Part:
    place: int  # twice the column, and one more for an entry: a list may stand in the column of its key
    row: int
    start: int  # bytes: of its key or dash
    level: int
    holder: int  # the number of what holds it, -1 for none
    last: int = 0
    end: int = 0


def yaml_lines(text: bytes) -> tuple[Symbol, ...]:
    """Keys and named entries as in `key_symbols`; the keys of several documents in one list."""
    text = text.replace(_BYTE_ORDER_MARK, b"")
    parts = _parts(text)
    symbols: list[Symbol] = []
    for deepest in _DEPTHS:
        symbols = _shown(parts, deepest, text)
        if len(symbols) < _MOST:
            break
    return tuple(symbols[:_MOST])


def _parts(text: bytes) -> list[_Part]:
    parts: list[_Part] = []
    open_: list[int] = []
    literal = -1  # the column of the key whose block of text this is
    offset = last = 0
    for row, line in enumerate(text.split(b"\n")):
        start, offset = offset, offset + len(line) + 1
        bare = line.lstrip(b" ")
        column = len(line) - len(bare)
        if _BLANK.match(line) or (literal >= 0 and column > literal):
            last = row if literal >= 0 and bare.strip() else last
            continue
        literal = -1
        if line.startswith((b"---", b"...")):
            _close(parts, open_, -1, (last, start))
            last = row
            continue
        while match := _DASH.match(line, column):
            place = 2 * column + 1
            _close(parts, open_, place, (last, start))
            parts.append(_part(parts, open_, place, row, start + column))
            column = match.end()
            column += len(line[column:]) - len(line[column:].lstrip(b" "))
        if match := _KEY.match(line, column):
            place = 2 * column
            _close(parts, open_, place, (last, start))
            parts.append(_part(parts, open_, place, row, start + column))
            if _BLOCK.search(line, match.end()):
                literal = column
        last = row
    _close(parts, open_, -1, (last, len(text)))
    return parts


def _part(parts: list[_Part], open_: list[int], place: int, row: int, start: int) -> _Part:
    holder = open_[-1] if open_ else -1
    level = parts[holder].level + 1 if open_ else 0
    open_.append(len(parts))
    return _Part(place, row, start, level, holder)


def _close(parts: list[_Part], open_: list[int], place: int, end: tuple[int, int]) -> None:
    while open_ and parts[open_[-1]].place >= place:
        part = parts[open_.pop()]
        part.last, part.end = max(end[0], part.row), end[1]


def _shown(parts: list[_Part], deepest: int, text: bytes) -> list[Symbol]:
    symbols: list[Symbol] = []
    shown: dict[int, Symbol] = {}
    opened: set[int] = {-1}
    for number, part in enumerate(parts):
        if part.holder not in opened:
            continue
        if len(symbols) >= _MOST:
            break
        entry, row = part.place & 1, part.row
        if part.level + 1 < deepest and (
            part.end - part.start > _OPENED or (not entry and part.level + 1 < _LEVELS)
        ):
            opened.add(number)
        holder = shown.get(part.holder)
        stop = text.find(b"\n", part.start)
        line = text[part.start : len(text) if stop < 0 else stop]
        if entry:
            name = yaml_title(text[part.start : part.start + 400], part.place >> 1)
        else:
            match = _KEY.match(line)
            name = clean(match[1].strip(b"\"'"), 80) if match else ""
        if not name or (part.level >= _LEVELS and not entry and part.last == row):
            if holder is not None:
                shown[number] = holder
            continue
        path = f"{holder.qualified_name}.{name}" if holder else name
        depth = holder.depth + 1 if holder else 0
        head = clean(line, 120).rstrip("{[, ") or name
        symbol = Symbol(name, "entry" if entry else "key", path, row + 1, part.last + 1, head, depth)
        shown[number] = symbol
        symbols.append(symbol)
    return symbols
