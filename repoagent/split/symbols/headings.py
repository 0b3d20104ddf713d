"""The outline of a Markdown file: the grammar's own sections end too early at underlined headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.split.symbols.names import clean
from repoagent.split.symbols.symbol import Symbol

if TYPE_CHECKING:
    import tree_sitter

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
    """Headings as row (from 0), level (from 1) and title, in order, in a text of `total` lines, as symbols."""
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
