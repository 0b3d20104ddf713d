"""What a definition of a source file is for us, and how a list of them is shown."""

from __future__ import annotations

from collections.abc import Sequence

from repoagent.dataclass import dataclass


@dataclass(frozen=True)
class Symbol:
    """A named part of a file. Lines count from 1, both included, with the comments, decorators and attributes
    that belong to it; those of a symbol lie within those of the one that holds it.

    `kind` is function, method, class, struct, union, enum, interface, type, namespace, macro, impl, object,
    declaration (a signature without a body), constant, variable, heading, key, entry (of a list, by its name or id),
    selector, rule or element. `qualified_name` is the path to it, joined by dots, in every language. `depth` is the
    number of symbols that hold it.
    """

    name: str
    kind: str
    qualified_name: str
    first_line: int
    last_line: int
    signature: str
    depth: int


def render_outline(symbols: Sequence[Symbol], *, limit: int = 400) -> str:
    """One line per symbol, its line range and its signature indented by depth, for people and prompts.

    Above `limit` symbols the deepest levels are left out first, then the end, and the last line says how
    many.
    """
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
        f"{where:>{width}}  {'  ' * s.depth}{s.signature}" for where, s in zip(ranges, shown, strict=True)
    ]
    if len(shown) < len(symbols):
        lines.append(f"({len(symbols) - len(shown)} more)")
    return "".join(line + "\n" for line in lines)
