"""A definition by its name, and the definitions that a change takes away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from repoagent.errors import UsageError
from repoagent.split.languages import language_of
from repoagent.split.symbols.outlines import outline
from repoagent.split.symbols.symbol import Symbol

_DEFINITIONS = frozenset(
    {"function", "method", "class", "struct", "union", "enum", "interface", "type", "macro", "declaration"}
)
_SHORT = 200  # definitions of one name with fewer lines in total are all meant
_SEPARATOR = re.compile(r"::|#|->")
_LINE = re.compile(r"(.+):(\d+)")


def find_symbols(path: str, data: bytes, name: str) -> tuple[Symbol, ...]:
    """The symbols of the file that `name` means: `Class.method` (also `Class::method`, `Class#method`), the
    end of such a path, or a bare name. `NAME:LINE` picks the one that has this line. Several, as overloads are, only
    where they are short.

    A definition is preferred to a declaration of the same name. Raises UsageError, with the candidates or the
    nearest names, when no symbol or more than one is meant, and when the file has no outline.
    """
    symbols = outline(path, data)
    if not symbols:
        why = (
            "has no symbols"
            if language_of(path, data)
            else "is in no language that repoagent has a grammar for"
        )
        raise UsageError(f"{path} {why}: name lines instead of {name!r}.")
    found = _best(_matches(symbols, name))
    outer = tuple(
        symbol
        for number, symbol in enumerate(found)
        if not any(other.last_line >= symbol.last_line for other in found[:number])
    )
    if sum(symbol.last_line - symbol.first_line + 1 for symbol in outer) < _SHORT and outer:
        return outer
    return (pick_symbol(path, symbols, name),)


def pick_symbol(path: str, symbols: Sequence[Symbol], name: str) -> Symbol:
    """The one of these symbols that `name` means; see `find_symbols`. Raises UsageError."""
    if found := _matches(symbols, name):
        return _single(path, name, found)
    if (parts := _LINE.fullmatch(name)) and (named := _matches(symbols, parts[1])):
        line = int(parts[2])
        if here := [symbol for symbol in named if symbol.first_line <= line <= symbol.last_line]:
            return max(here, key=lambda symbol: symbol.depth)
        raise UsageError(f"{path} has no {parts[1]} on line {line}: {_list(named)}.")
    raise UsageError(f"{path} has no symbol {name!r}; {_nearest(symbols, name)}.")


def nearly_named(path: str, data: bytes, name: str) -> str:
    """The qualified name of the one symbol that `name` means but for case and leading underscores; "" for none, or for
    several."""
    wanted = _plain(_SEPARATOR.sub(".", re.sub(r"\(.*\)$", "", name.strip())))
    names = {
        s.qualified_name for s in outline(path, data) if f".{_plain(s.qualified_name)}".endswith(f".{wanted}")
    }
    return names.pop() if len(names) == 1 and wanted else ""


def _plain(name: str) -> str:
    return ".".join(part.lstrip("_") for part in name.lower().split("."))


def _matches(symbols: Sequence[Symbol], name: str) -> list[Symbol]:
    """All symbols of the first reading of `name` that fits any: whole path, its end, with separators made
    dots."""
    plain = _SEPARATOR.sub(".", re.sub(r"\(.*\)$", "", name.strip())).strip(".")
    for wanted in (name, plain):
        whole = [symbol for symbol in symbols if symbol.qualified_name == wanted]
        tail = (
            [s for s in symbols if s.name == wanted or s.qualified_name.endswith("." + wanted)]
            if wanted
            else []
        )
        if whole or tail:
            return whole or tail
    if name.startswith("#"):  # a heading of a page is called by its words, and has its id in its head
        return [s for s in symbols if s.kind == "heading" and f' id="{name[1:]}"' in s.signature]
    return []


def _single(path: str, name: str, found: list[Symbol]) -> Symbol:
    best = _best(found)
    if len(best) > 1:
        raise UsageError(
            f"{name!r} is not one symbol of {path}: {_list(best)}. Name one by its line, as NAME:LINE."
        )
    return best[0]


def _best(found: list[Symbol]) -> list[Symbol]:
    return [symbol for symbol in found if symbol.kind != "declaration"] or found


def _list(symbols: Sequence[Symbol], most: int = 8) -> str:
    shown = ", ".join(f"{s.qualified_name} ({s.first_line}-{s.last_line})" for s in symbols[:most])
    return shown + (f" and {len(symbols) - most} more" if len(symbols) > most else "")


def _nearest(symbols: Sequence[Symbol], name: str) -> str:
    by_name = {symbol.name.lower(): symbol for symbol in symbols}
    by_name |= {symbol.qualified_name.lower(): symbol for symbol in symbols}
    near = get_close_matches(_SEPARATOR.sub(".", name.lower())[:200], list(by_name)[:5000], n=5, cutoff=0.5)
    if near:
        return f"nearest: {_list(list(dict.fromkeys(by_name[key] for key in near)))}"
    return f"it has {_list([symbol for symbol in symbols if symbol.depth == 0])}"


def definitions(path: str, data: bytes) -> tuple[str, ...]:
    """Qualified names of what the file defines: functions, classes and their members, types, macros.

    What is local to a function is left out, and so are keys, headings and the like. Each name once, in order.
    """
    names: dict[str, None] = {}
    local_below: int | None = None
    for symbol in outline(path, data):
        if local_below is not None and symbol.depth > local_below:
            continue
        local_below = symbol.depth if symbol.kind in ("function", "method") else None
        if symbol.kind in _DEFINITIONS:
            names[symbol.qualified_name] = None
    return tuple(names)


def lost_definitions(path: str, before: bytes, after: bytes) -> tuple[str, ...]:
    """Qualified names that `definitions` has for `before` and no longer for `after`, in order of `before`.

    A rename looks like a loss and something new; only the loss is reported. A class takes its members along.
    """
    if before == after:
        return ()
    left = set(definitions(path, after))
    return tuple(name for name in definitions(path, before) if name not in left)
