"""The first two levels of a data file: keys of JSON and YAML, elements of XML.

A walk and not a query: with ten thousand keys under one node, a query that holds on to that node takes
seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tree_sitter

LANGUAGES_WITH_KEYS = frozenset({"json", "yaml", "xml"})
LEVELS = 2
_THROUGH = {
    "json": frozenset({"document", "object"}),
    "yaml": frozenset({"stream", "document", "block_node", "block_mapping"}),
    "xml": frozenset({"document", "content"}),
}


def key_nodes(
    root: tree_sitter.Node, language: str
) -> Iterator[tuple[tree_sitter.Node, str, tree_sitter.Node]]:
    """Each key or element as node, kind and the node of its name; a holder comes before what it holds."""
    pending = [(root, 0)]
    while pending:
        node, level = pending.pop()
        if node.type in _THROUGH[language]:
            pending.extend((child, level) for child in reversed(node.named_children))
        elif node.type in ("pair", "block_mapping_pair"):
            key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
            if key is not None:
                yield node, "key", key
            if value is not None and level + 1 < LEVELS:
                pending.append((value, level + 1))
        elif node.type == "element":
            tag = node.named_children[0] if node.named_children else None
            if tag is not None and tag.named_children and tag.named_children[0].type == "Name":
                yield node, "element", tag.named_children[0]
            if level + 1 < LEVELS:
                pending.extend((child, level + 1) for child in reversed(node.named_children))
