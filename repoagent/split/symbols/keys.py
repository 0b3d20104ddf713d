"""The first two levels of a data file: keys of JSON and YAML, elements of XML, list entries that have a name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.split.symbols.names import clean, nth
from repoagent.split.symbols.symbol import Symbol

if TYPE_CHECKING:
    import tree_sitter

LANGUAGES_WITH_KEYS = frozenset({"json", "yaml", "xml"})
LEVELS = 2
MOST_KEYS = 10_000  # what is beyond helps nobody
_COMMENTS = frozenset({"comment", "Comment"})
_LEAVES = frozenset({"string", "number", "true", "false", "null"})
_THROUGH = {
    "json": frozenset({"document", "object", "array"}),
    "yaml": frozenset(
        {
            "stream",
            "document",
            "block_node",
            "block_mapping",
            "block_sequence",
            "flow_node",
            "flow_mapping",
            "flow_sequence",
        }
    ),
    "xml": frozenset({"document", "content"}),
}
_PAIRS = frozenset({"pair", "block_mapping_pair", "flow_pair"})
_MAPPINGS = frozenset({"object", "block_mapping", "flow_mapping"})
_ENTRIES = frozenset({"array", "block_sequence", "flow_sequence"})
_TITLES = (b"name", b"id", b"key", b"title")  # what calls a list entry by its name, the best one first
_TITLE_WITHIN = 4  # the first pairs of an entry
_JSON_TITLE = re.compile(rb'"(name|id|key|title)"\s*:\s*("[^"\n]*"|\d+)')


def key_symbols(root: tree_sitter.Node, language: str, text: bytes) -> tuple[Symbol, ...]:
    """The keys, elements and named entries in order of the text; a holder comes before what it holds.

    They are made here and not by way of what other languages share: a data file has one in each line.
    """
    symbols: list[Symbol] = []
    through = _THROUGH[language]
    # node, level, what stands before it, the symbol that holds it, whether it is a list entry
    pending: list[tuple[tree_sitter.Node, int, tuple[tree_sitter.Node, ...], Symbol | None, bool]]
    pending = [(root, 0, (), None, False)]
    while pending and len(symbols) < MOST_KEYS:
        node, level, notes, holder, entry = pending.pop()
        type_ = node.type
        if type_ in _PAIRS:
            key, value = _key_and_value(node, language)
            if key is not None:
                name = clean(unquoted(text[key.start_byte : key.end_byte]), 80)
                symbols.append(_symbol((node, notes), "key", name, holder, text))
                if value is not None and level + 1 < LEVELS and value.type not in _LEAVES:
                    inner_notes = tuple(c for c in node.named_children if c.type in _COMMENTS)
                    pending.append((value, level + 1, inner_notes, symbols[-1], False))
        elif type_ == "element":
            inner = holder
            if name := _element(node, text):
                symbols.append(_symbol((node, notes), "element", name, holder, text))
                inner = symbols[-1]
            if level + 1 < LEVELS:
                pending.extend(
                    (child, level + 1, (), inner, False) for child in reversed(node.named_children)
                )
        elif entry:
            if title := _title(node, text) if language == "yaml" else _json_title(node, text):
                symbols.append(_symbol((node, notes), "entry", title, holder, text))
        elif type_ in through:
            inside, run, entries = [], notes, type_ in _ENTRIES
            for child in node.named_children:
                if child.type in _COMMENTS:
                    run = (*run, child)
                    continue
                if child.type == "prolog":
                    run = tuple(part for part in child.named_children if part.type in _COMMENTS)
                    continue
                if child.type == "CharData":
                    continue
                inside.append((child, level, run, holder, entries))
                run = ()
            pending.extend(reversed(inside))
    return tuple(symbols)


def _symbol(
    place: tuple[tree_sitter.Node, tuple[tree_sitter.Node, ...]],
    kind: str,
    name: str,
    holder: Symbol | None,
    text: bytes,
) -> Symbol:
    """`place` is the node, and the comments before it."""
    node, notes = place
    (first, column), (last, end) = node.start_point, node.end_point
    if end == 0 and last > first:
        last -= 1
    for note in reversed(notes):
        (begins, at), (ends, _) = note.start_point, note.end_point
        line = text[text.rfind(b"\n", 0, note.start_byte) + 1 : note.start_byte]
        if ends != first - 1 or at != column or line.strip():
            break
        first = begins
    start = node.start_byte
    stop = text.find(b"\n", start, start + 400)
    stop = min(node.end_byte, start + 400) if stop < 0 else min(stop, node.end_byte)
    signature = clean(text[start:stop]).rstrip("{;,[ ") or name
    if holder is None:
        return Symbol(name, kind, name, first + 1, last + 1, signature, 0)
    first, last = max(first + 1, holder.first_line), min(last + 1, holder.last_line)
    path = f"{holder.qualified_name}.{name}"
    return Symbol(name, kind, path, first, max(first, last), signature, holder.depth + 1)


def unquoted(text: bytes) -> bytes:
    return text[1:-1] if len(text) > 1 and text[:1] == text[-1:] and text[:1] in (b'"', b"'") else text


def _element(node: tree_sitter.Node, text: bytes) -> str:
    """`tag`, or `tag#id` where it has an id or a name."""
    tag = nth(node, 0)
    name = nth(tag, 0) if tag is not None else None
    if tag is None or name is None or name.type != "Name":
        return ""
    called = clean(text[name.start_byte : name.end_byte], 80)
    for attribute in tag.named_children[1 : 1 + _TITLE_WITHIN]:
        key, value = nth(attribute, 0), nth(attribute, 1)
        if key is None or value is None:
            continue
        if text[key.start_byte : key.end_byte].lower() in (b"id", b"xml:id", b"name"):
            return f"{called}#{clean(text[value.start_byte + 1 : value.end_byte - 1], 60)}"
    return called


def _key_and_value(
    node: tree_sitter.Node, language: str
) -> tuple[tree_sitter.Node | None, tree_sitter.Node | None]:
    if language == "json":
        parts = node.named_children  # half the time of two look-ups by name
        if len(parts) == 2:
            return parts[0], parts[1]
    return node.child_by_field_name("key"), node.child_by_field_name("value")


def _json_title(node: tree_sitter.Node, text: bytes) -> str:
    """The name that stands before anything nested: of ten thousand entries, the tree is too slow to ask."""
    start = node.start_byte
    if text[start : start + 1] != b"{":
        return ""
    stop = min(node.end_byte, start + 400)
    nested = text.find(b"{", start + 1, stop)
    found = {m[1]: m[2] for m in _JSON_TITLE.finditer(text, start, nested if nested > 0 else stop)}
    return next((clean(unquoted(found[name]), 80) for name in _TITLES if found.get(name)), "")


def _title(node: tree_sitter.Node, text: bytes) -> str:
    """The name in a list entry that is a mapping: `{"name": "x", …}`, `- id: x`."""
    while node.type in ("block_sequence_item", "block_node", "flow_node") and node.named_child_count:
        node = node.named_children[-1]
    found: dict[bytes, str] = {}
    if node.type in _MAPPINGS:
        for pair in node.named_children[:_TITLE_WITHIN]:
            key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
            if key is None or value is None:
                continue
            name = unquoted(text[key.start_byte : key.end_byte])
            if name in _TITLES and value.type in ("string", "number", "flow_node"):
                found[name] = clean(unquoted(text[value.start_byte : value.end_byte]), 80)
                if name == _TITLES[0]:
                    break
    return next((found[name] for name in _TITLES if found.get(name)), "")
