"""The symbols of a file, and helpers for all outlines: names, line ranges, rendering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    import tree_sitter

WIDTH = 160


@dataclass(frozen=True)
class Symbol:
    """A named part of a file. Line numbers start at 1; `last_line` is included. The lines include the comments,
    decorators and attributes of the symbol, and are within those of its container.

    `kind` is function, method, class, struct, union, enum, interface, type, namespace, macro, impl, object,
    declaration (a signature without a body), constant, variable, heading, key, entry (of a list, by its name or id),
    selector, rule or element. `qualified_name` is the path to it, joined by dots in every language. `depth` is the
    number of symbols that contain it.
    """

    name: str
    kind: str
    qualified_name: str
    first_line: int
    last_line: int
    signature: str
    depth: int


def nested_symbol(
    parent: Symbol | None, name: str, kind: str, lines: tuple[int, int], signature: str
) -> Symbol:
    """A symbol inside `parent`, with its lines clipped to those of `parent`, or at the top level if `parent` is
    None."""
    first, last = lines
    if parent is None:
        return Symbol(name, kind, name, first, max(first, last), signature, 0)
    first, last = max(first, parent.first_line), min(last, parent.last_line)
    path = f"{parent.qualified_name}.{name}"
    return Symbol(name, kind, path, first, max(first, last), signature, parent.depth + 1)


def symbols_by_level(items: Sequence[tuple[int, int, str, str]], total: int, kind: str) -> tuple[Symbol, ...]:
    """The nested symbols for `items` in a text of `total` lines. An item has a row (from 0), a level, a name and a
    signature.

    Each symbol extends to the row before the next item whose level number is the same or smaller, and contains the
    items in between.
    """
    ends = [total] * len(items)
    waiting: list[int] = []
    for number, (row, level, _, _) in enumerate(items):
        while waiting and items[waiting[-1]][1] >= level:
            ends[waiting.pop()] = row
        waiting.append(number)
    symbols: list[Symbol] = []
    open_: list[tuple[int, Symbol]] = []
    for last, (row, level, name, signature) in zip(ends, items, strict=True):
        while open_ and open_[-1][0] >= level:
            open_.pop()
        parent = open_[-1][1] if open_ else None
        symbols.append(nested_symbol(parent, name, kind, (row + 1, max(last, row + 1)), signature))
        open_.append((level, symbols[-1]))
    return tuple(symbols)


def line_range(node: tree_sitter.Node, comments: Sequence[tree_sitter.Node], text: bytes) -> tuple[int, int]:
    """The first and last line of `node`, counted from 1, including the comments directly above it at the same
    column."""
    (first, column), (last, end) = node.start_point, node.end_point
    last -= end == 0 and last > first
    if comments and text[node.start_byte - column : node.start_byte].strip():
        comments = ()
    for comment in reversed(comments):
        (row, at), (ends, stop) = comment.start_point, comment.end_point
        behind = comment.end_byte
        if stop == 0 and ends > row:  # some grammars include the line end
            ends, behind = ends - 1, behind - 1
        newline = text.find(b"\n", behind)
        rest = text[behind : newline if newline >= 0 else len(text)]
        alone = not text[comment.start_byte - at : comment.start_byte].strip() and not rest.strip()
        if not alone or ends != first - 1 or at != column or (row == 0 and text.startswith(b"#!")):
            break
        first = row
    return first + 1, last + 1


def printable_line(text: bytes, width: int = WIDTH) -> str:
    """`text` as one printable line of at most `width` characters."""
    line = text.decode("utf-8", "replace").strip()
    if not line.isprintable() or "  " in line:
        line = " ".join(line.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else "�" for c in line)
    return line if len(line) <= width else line[: width - 1] + "…"


def render_outline(symbols: Sequence[Symbol], *, limit: int = 400) -> str:
    """One line per symbol with its line range and signature, indented by depth. For more than `limit` symbols, the
    deepest levels are omitted first, then the end; the last line gives the number omitted."""
    shown = list(symbols)
    for depth in range(max((symbol.depth for symbol in symbols), default=0), 0, -1):
        if len(shown) <= limit:
            break
        shown = [symbol for symbol in shown if symbol.depth < depth]
    shown = shown[:limit]
    ranges = [
        f"{s.first_line}-{s.last_line}" if s.last_line > s.first_line else str(s.first_line) for s in shown
    ]
    width = max(map(len, ranges), default=0)
    lines = [
        f"{lines:>{width}}  {'  ' * s.depth}{s.signature}\n" for lines, s in zip(ranges, shown, strict=True)
    ]
    if len(shown) < len(symbols):
        lines.append(f"({len(symbols) - len(shown)} more)\n")
    return "".join(lines)
