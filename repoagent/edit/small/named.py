"""Definitions of a text, matched by name with those of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass

if TYPE_CHECKING:
    from repoagent.split import Symbol

Found = list[tuple[tuple[int, int], list[str]]]
BODIES = frozenset({"function", "method"})
_SAID = re.compile(
    r"\s*(?:#|//|/\*|<!--|--)?.*(?:\.\.\.|…).*$|\s*(?:#|//|/\*|--)\s.*\b(?:rest|unchanged|existing|other)\b.*$"
)
_LEFT_OUT = re.compile(
    r"\s*(?:#|//|/\*|<!--|--)\s*"
    r"(?:\.\.\.|…|(?:the )?(?:rest|other (?:methods|functions|code)|existing code|unchanged)\b)"
)


@dataclass(frozen=True)
class Outlined:
    """Lines of code and the definitions in them."""

    lines: Sequence[str]
    symbols: Sequence[Symbol]

    @property
    def top(self) -> list[Symbol]:
        return [symbol for symbol in self.symbols if symbol.depth == 0]

    def inside(self, holder: Symbol) -> list[Symbol]:
        return [
            s
            for s in self.symbols
            if s.depth == holder.depth + 1
            and holder.first_line <= s.first_line
            and s.last_line <= holder.last_line
        ]

    def text(self, symbol: Symbol, old: Outlined) -> list[str]:
        """Its lines, without a comment above it, new to `old`, that only says what was left out there."""
        lines = list(self.lines[symbol.first_line - 1 : symbol.last_line])
        while len(lines) > 1 and _LEFT_OUT.match(lines[0]) and lines[0] not in old.lines:
            del lines[0]
        return lines


def named_pieces(new: Outlined, old: Outlined) -> Found | None:
    """For each definition of `new` the rows of `old` that it comes in place of, in order.

    A definition that `old` has not goes along with the one before it (or after it). None unless at least one is there,
    each is there once, and all other lines are in `old` too or only say that something was left out.
    """
    if not new.top or not _nothing_else(new, new.top, (0, len(new.lines)), old):
        return None
    found: Found = []
    waiting: list[str] = []
    for symbol in new.top:
        targets = _match(symbol, old.symbols)
        if len(targets) > 1:
            return None
        if not targets and found:
            found[-1][1].extend([*_gap(found[-1][0][0], old), *new.text(symbol, old)])
        elif not targets:
            waiting += new.text(symbol, old)
        else:
            pieces = _members(symbol, targets[0], new, old)
            if pieces is None:
                return None
            if waiting:
                pieces[0][1][:0] = [*waiting, *_gap(pieces[0][0][0], old)]
                waiting = []
            found += pieces
    return found or None


def lacks_members(new: Outlined, old: Outlined) -> bool:
    """Whether the text opens a class, or the like, of the file without all that the file has in it."""
    for symbol in new.top:
        for target in _match(symbol, old.symbols):
            if symbol.kind not in BODIES and not _has_all(symbol, target, new, old):
                return True
    return False


def _has_all(symbol: Symbol, target: Symbol, new: Outlined, old: Outlined) -> bool:
    return {s.name for s in old.inside(target)} <= {s.name for s in new.inside(symbol)}


def _match(symbol: Symbol, there: Sequence[Symbol]) -> list[Symbol]:
    same = [other for other in there if other.qualified_name == symbol.qualified_name]
    same = same or [other for other in there if other.name == symbol.name]
    bodies = [other for other in same if other.kind != "declaration"]
    return [other for other in bodies or same if (other.kind in BODIES) == (symbol.kind in BODIES)]


def _members(symbol: Symbol, target: Symbol, new: Outlined, old: Outlined) -> Found | None:
    """A holder that comes without some of its members stands for those that it has; anything else for itself."""
    if symbol.kind in BODIES or _has_all(symbol, target, new, old):
        return [((target.first_line - 1, target.last_line), new.text(symbol, old))]
    members = new.inside(symbol)
    if not _nothing_else(new, members, (symbol.first_line - 1, symbol.last_line), old):
        return None
    found: Found = []
    for member in members:
        same = [other for other in old.inside(target) if other.name == member.name]
        if len(same) > 1 or (not same and not found):
            return None
        if same:
            found.append(((same[0].first_line - 1, same[0].last_line), new.text(member, old)))
        else:
            found[-1][1].extend(["", *new.text(member, old)])
    return found or None


def _nothing_else(new: Outlined, symbols: Sequence[Symbol], rows: tuple[int, int], old: Outlined) -> bool:
    """Whether all of these rows outside the definitions are lines of the file, or speak of what was left out."""
    inside = {row for s in symbols for row in range(s.first_line - 1, s.last_line)}
    known = {line.strip() for line in old.lines}
    outside = (new.lines[row] for row in range(*rows) if row not in inside)
    return all(not line.strip() or line.strip() in known or _SAID.match(line) for line in outside)


def _gap(row: int, old: Outlined) -> list[str]:
    """As many blank lines as the file has above this row: one or two."""
    two = row > 1 and not old.lines[row - 1].strip() and not old.lines[row - 2].strip()
    return ["", ""] if two else [""]
