"""The keys of a data file: of JSON and YAML, elements of XML, list entries by their name; two levels, and what is in
those that are large."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from repoagent.split.symbols.elements import element_name, is_drawing, is_shape, start_tag
from repoagent.split.symbols.entries import document_title, entry_title, first_pair
from repoagent.split.symbols.names import clean
from repoagent.split.symbols.symbol import Symbol

if TYPE_CHECKING:
    import tree_sitter

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
    """What is to be looked at: `notes` stand before it, `holder` is the symbol that it is in, `entry` its place in a
    list (-1: in none)."""

    node: tree_sitter.Node
    level: int
    notes: tuple[tree_sitter.Node, ...]
    holder: Symbol | None
    entry: int = -1


def key_symbols(root: tree_sitter.Node, language: str, text: bytes) -> tuple[Symbol, ...]:
    """The keys, elements and named entries in order of the text; a holder comes before what it holds.

    They are made here and not by way of what other languages share: a data file has one in each line.
    """
    if language == "yaml" and root.type == "ERROR":  # a template, or more rows than the grammar can count
        from repoagent.split.symbols.yaml_lines import yaml_lines

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
    """What a node that is none itself leads to, with the comments before each. Several documents are an entry each."""
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
    """The line of a key; of one that holds something, and that line is long, the key."""
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
    """The key as it is written, and the value where it holds something. Mostly read off the text: to ask the tree for
    the parts takes several times as long."""
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
