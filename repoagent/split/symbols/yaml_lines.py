"""The keys of YAML that its grammar can't read, by indentation: templates, and files of more than 32,767 lines (the
grammar counts them in 16 bits)."""

from __future__ import annotations

import re

from repoagent.dataclass import dataclass
from repoagent.split.symbols.entries import yaml_title
from repoagent.split.symbols.names import clean
from repoagent.split.symbols.symbol import Symbol

_KEY = re.compile(
    rb"(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'#{}\[\]&*!|>%@`,-][^\n#{}\[\]\"']*?)[ \t]*:(?=[ \t]|\r?$)"
)
_DASH = re.compile(rb"([ ]*)-(?=[ \t]|\r?$)")
_BLOCK = re.compile(rb"[|>][+-]?\d?[+-]?[ \t]*(?:#.*)?\r?$")
_BLANK = re.compile(rb"\s*(?:#|\r?$|\{\{|%)")
_LEVELS, _DEPTHS = 2, (8, 3, 2, 1)  # as `keys.py` has them, and these
_OPENED = 8192
_MOST = 10_000
_BYTE_ORDER_MARK = "\ufeff".encode()


@dataclass(slots=True)
class _Part:
    place: int  # twice the column, and one more for an entry: a list may stand in the column of its key
    row: int
    start: int  # bytes: of its key or dash
    level: int
    holder: int  # the number of what holds it, -1 for none
    last: int = 0
    end: int = 0


def yaml_lines(text: bytes) -> tuple[Symbol, ...]:
    """Keys and named entries as `key_symbols` has them; of several documents all keys in one list."""
    text = text.replace(_BYTE_ORDER_MARK, b"")
    parts = _parts(text)
    symbols: list[Symbol] = []
    for deepest in _DEPTHS:
        symbols = _shown(parts, deepest, text)
        if len(symbols) < _MOST:
            break
    return tuple(symbols[:_MOST])


def _parts(text: bytes) -> list[_Part]:
    parts: list[_Part] = []
    open_: list[int] = []
    literal = -1  # the column of the key whose block of text this is
    offset = last = 0
    for row, line in enumerate(text.split(b"\n")):
        start, offset = offset, offset + len(line) + 1
        bare = line.lstrip(b" ")
        column = len(line) - len(bare)
        if _BLANK.match(line) or (literal >= 0 and column > literal):
            last = row if literal >= 0 and bare.strip() else last
            continue
        literal = -1
        if line.startswith((b"---", b"...")):
            _close(parts, open_, -1, (last, start))
            last = row
            continue
        while match := _DASH.match(line, column):
            place = 2 * column + 1
            _close(parts, open_, place, (last, start))
            parts.append(_part(parts, open_, place, row, start + column))
            column = match.end()
            column += len(line[column:]) - len(line[column:].lstrip(b" "))
        if match := _KEY.match(line, column):
            place = 2 * column
            _close(parts, open_, place, (last, start))
            parts.append(_part(parts, open_, place, row, start + column))
            if _BLOCK.search(line, match.end()):
                literal = column
        last = row
    _close(parts, open_, -1, (last, len(text)))
    return parts


def _part(parts: list[_Part], open_: list[int], place: int, row: int, start: int) -> _Part:
    holder = open_[-1] if open_ else -1
    level = parts[holder].level + 1 if open_ else 0
    open_.append(len(parts))
    return _Part(place, row, start, level, holder)


def _close(parts: list[_Part], open_: list[int], place: int, end: tuple[int, int]) -> None:
    while open_ and parts[open_[-1]].place >= place:
        part = parts[open_.pop()]
        part.last, part.end = max(end[0], part.row), end[1]


def _shown(parts: list[_Part], deepest: int, text: bytes) -> list[Symbol]:
    symbols: list[Symbol] = []
    shown: dict[int, Symbol] = {}
    opened: set[int] = {-1}
    for number, part in enumerate(parts):
        if part.holder not in opened:
            continue
        if len(symbols) >= _MOST:
            break
        entry, row = part.place & 1, part.row
        if part.level + 1 < deepest and (
            part.end - part.start > _OPENED or (not entry and part.level + 1 < _LEVELS)
        ):
            opened.add(number)
        holder = shown.get(part.holder)
        stop = text.find(b"\n", part.start)
        line = text[part.start : len(text) if stop < 0 else stop]
        if entry:
            name = yaml_title(text[part.start : part.start + 400], part.place >> 1)
        else:
            match = _KEY.match(line)
            name = clean(match[1].strip(b"\"'"), 80) if match else ""
        if not name or (part.level >= _LEVELS and not entry and part.last == row):
            if holder is not None:
                shown[number] = holder
            continue
        path = f"{holder.qualified_name}.{name}" if holder else name
        depth = holder.depth + 1 if holder else 0
        head = clean(line, 120).rstrip("{[, ") or name
        symbol = Symbol(name, "entry" if entry else "key", path, row + 1, part.last + 1, head, depth)
        shown[number] = symbol
        symbols.append(symbol)
    return symbols
