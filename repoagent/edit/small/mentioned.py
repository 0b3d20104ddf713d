"""Which definitions of a file a text names: what a request, or an answer that lists names, is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.split import Symbol

# Definitions are called so, and so are half of the verbs in requests: such a name alone says nothing.
_PLAIN = frozenset(
    re.findall(
        r"\w+",
        """
        add all and any apply build call change check class clear close copy count create data default delete do
        each end error exit file filter find first fix for format get handle has help in index init insert is item
        items join key keys last len line lines list load log make map max merge message min move name new next not
        of on open or parse path print process put read remove rename render replace report request reset result
        return run save search send set show size sort split start state stop string sum test tests text the time to
        type update use user value values version with word words write
        """,
    )
)
# What a request adds is not there yet: a definition that happens to have its name is not meant.
_ADDS = (
    r"\b(?:add|create|introduce|write|new)\s+(?:(?:an?|the|new|static|async|private|public|method|function|class|option|"
    r"command|helper|property|field|test|called|named)\s+)*`?"
)


def mentioned(
    symbols: Sequence[Symbol], words: str, limit: int, *, plain: bool = False, sure: bool = False
) -> list[Symbol]:
    """The definitions that a text names, word for word.

    A name that is also a plain word counts only beside "function" and the like, or as `name`, name(), or where
    `plain` says that the text holds nothing but names; of names that may be words, the first one counts: what a
    request is about comes first. With `sure` none of these do. Of a holder and its members named together, the members.
    """
    certain: list[Symbol] = []
    likely: list[Symbol] = []
    lowered = words.lower()
    for symbol in symbols:
        if symbol.name.lower() not in lowered:  # nearly all, in a long file
            continue
        rank = _rank(symbol, words, plain=plain)
        if rank:
            (certain if rank == 2 else likely).append(symbol)
    found = certain or ([] if sure else _first_named(likely, words))
    full = [s for s in found if "." in s.qualified_name and _has(s.qualified_name, words)]
    found = [s for s in found if s in full or all(s.name != other.name for other in full)]
    holders = [s for s in found if any(_holds(s, other) for other in found)]
    return [_head(s, symbols, limit) for s in found if s not in holders]


def _first_named(likely: Sequence[Symbol], words: str) -> list[Symbol]:
    places = {s.name: re.search(rf"(?<![\w-]){re.escape(s.name)}(?![\w-])", words) for s in likely}
    order = sorted((match.start(), name) for name, match in places.items() if match)
    return [s for s in likely if order and s.name == order[0][1]]


def _rank(symbol: Symbol, words: str, *, plain: bool) -> int:
    """How surely the text names the symbol: 2, 1, or 0 for not at all."""
    name = symbol.name
    if symbol.kind == "heading":
        return (
            2 if len(name) > 3 and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words, re.IGNORECASE) else 0
        )
    if not _has(name, words) or re.search(rf"{_ADDS}{re.escape(name)}\b", words, re.IGNORECASE):
        return 0
    unlike_a_word = re.search(r"[_\d.:#-]|[a-z][A-Z]|^[A-Z]{2}", name.strip("_")) or name.startswith("_")
    escaped = re.escape(name)
    marked = re.search(
        rf"`[^`]*\b{escaped}\b[^`]*`|\b{escaped}\s?\(|[.:]{escaped}\b|\b{escaped}\b\s+(?:function|method|class|"
        rf"command|key|section|test|hook|helper|struct)|(?:function|method|class|def|key|called|named|struct)\s+{escaped}\b",
        words,
    )
    if plain or unlike_a_word or marked or _has(symbol.qualified_name, words, dotted=True):
        return 2
    return 0 if name.lower() in _PLAIN else 1


def _has(name: str, words: str, *, dotted: bool = False) -> bool:
    if dotted and "." not in name:
        return False
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", words) is not None


def _holds(outer: Symbol, inner: Symbol) -> bool:
    return outer is not inner and outer.first_line <= inner.first_line and inner.last_line <= outer.last_line


def _head(symbol: Symbol, symbols: Sequence[Symbol], limit: int) -> Symbol:
    """A holder that is too long to be written anew, without all its members but the first."""
    members = [s for s in symbols if _holds(symbol, s) and s.depth == symbol.depth + 1]
    if symbol.last_line - symbol.first_line < limit or not members:
        return symbol
    return replace(symbol, last_line=members[0].last_line)
