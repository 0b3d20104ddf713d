"""The outline of a Markdown file: the grammar's own sections end too early at underlined headings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from repoagent.split.symbols.names import clean
from repoagent.split.symbols.symbol import Symbol

if TYPE_CHECKING:
    import tree_sitter

_LEVEL = re.compile(r"_h(\d)_(?:marker|underline)$")


def headings(text: bytes, tree: tree_sitter.Tree, query: tree_sitter.Query) -> tuple[Symbol, ...]:
    """One symbol per heading; it reaches to the line before the next heading of its level or above."""
    import tree_sitter

    found: list[tuple[int, int, str]] = []
    for _, captures in tree_sitter.QueryCursor(query).matches(tree.root_node):
        node = captures["heading"][0]
        if _quoted(node):
            continue
        levels = (_LEVEL.search(child.type) for child in node.children)
        level = next((int(found_level[1]) for found_level in levels if found_level), 1)
        named = captures["name"][0] if "name" in captures else None
        written = text[named.start_byte : named.end_byte] if named is not None else b""
        found.append((node.start_point.row, level, clean(written, 120).rstrip("# ") or "(empty)"))
    found.sort()
    total = text.count(b"\n") + (not text.endswith(b"\n"))
    symbols: list[Symbol] = []
    open_: list[tuple[int, str]] = []
    for place, (row, level, name) in enumerate(found):
        last = next((next_row for next_row, other, _ in found[place + 1 :] if other <= level), total)
        while open_ and open_[-1][0] >= level:
            open_.pop()
        path = ".".join([*(held for _, held in open_), name])
        symbols.append(
            Symbol(name, "heading", path, row + 1, max(last, row + 1), "#" * level + " " + name, len(open_))
        )
        open_.append((level, name))
    return tuple(symbols)


def _quoted(node: tree_sitter.Node) -> bool:
    """Whether a heading stands in a quotation or a list: it divides that and not the file."""
    above = node.parent
    while above is not None and above.type == "section":
        above = above.parent
    return above is not None and above.type != "document"
