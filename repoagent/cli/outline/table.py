"""An outline as a person reads it, fitted to the terminal; in a pipe as a prompt takes it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import clean, paint
from repoagent.cli.screen.glance import columns, front, shorten
from repoagent.cli.screen.terminal import has_utf8

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.split.symbols.files import Outline
    from repoagent.split.symbols.symbol import Symbol

LEAST = 40  # columns: narrower than this nothing can be read
_STYLES = {
    **dict.fromkeys(
        ("class", "struct", "union", "enum", "interface", "type", "namespace", "impl", "object"), "blue"
    ),
    **dict.fromkeys(("function", "method", "macro"), "green"),
    **dict.fromkeys(("declaration", "constant", "variable", "entry", "key", "element"), "cyan"),
    **dict.fromkeys(("selector", "rule"), "yellow"),
}
_NAMED = 5  # files of a kind that are named


def show(outline: Outline, terminal: Terminal, *, head: bool, gap: bool) -> None:
    """Write one outline; `head`: with the file's name above it, `gap`: with a blank line before that."""
    wide = max(LEAST, terminal.width) if terminal.shows else None
    lines = [""] if head and gap else []
    if head:
        path = clean(outline.path)
        path = shorten(path, wide) if wide else path
        lines.append(paint(path, "bold") if terminal.color else path)
    ranges = [_range(symbol) for symbol in outline.symbols]
    width = max(map(len, ranges), default=0)
    least = min((symbol.depth for symbol in outline.symbols), default=0)
    for where, symbol in zip(ranges, outline.symbols, strict=True):
        indent = 2 * (symbol.depth - least)
        if wide:
            indent = min(indent, wide // 3)
        text = _fitted(symbol.signature, wide - width - 2 - indent if wide else None)
        place = where.rjust(width)
        if terminal.color:
            place, text = paint(place, "dim"), _painted(text, symbol)
        lines.append(f"{place}  {' ' * indent}{text}")
    text = "".join(f"{line}\n" for line in lines)
    terminal.styled(text if not wide or has_utf8(os.environ) else text.replace("…", "."))


def _range(symbol: Symbol) -> str:
    one = symbol.last_line == symbol.first_line
    return str(symbol.first_line) if one else f"{symbol.first_line}-{symbol.last_line}"


def _fitted(text: str, room: int | None) -> str:
    shown = clean(text)
    if room is None or columns(shown) <= room:
        return shown
    return front(shown, room - 1).rstrip() + "…"


def _painted(text: str, symbol: Symbol) -> str:
    """The head with its name in the colour of its kind: the word that the name is, not the first that holds it."""
    name = clean(symbol.name)
    style = _STYLES.get(symbol.kind)
    if style is None:
        return paint(text, "bold") if symbol.kind == "heading" else text
    start = text.find(name)
    while start > 0 and _word(text[start - 1]) and _word(name[:1]):
        start = text.find(name, start + 1)
    if start < 0 or not name:
        return text
    return text[:start] + paint(name, "bold", style) + text[start + len(name) :]


def _word(character: str) -> bool:
    return character.isalnum() or character == "_"


def show_left_out(left_out: Sequence[Outline], terminal: Terminal, *, something: bool) -> None:
    """Say on standard error which files there is no outline of, and which don't parse in places."""
    if broken := [outline for outline in left_out if not outline.kind]:
        places = sum(outline.flaws for outline in broken)
        where = ", ".join(f"{outline.path} ({outline.flaws})" for outline in broken[:_NAMED])
        more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
        terminal.note(
            f"{places} place{'s do' if places > 1 else ' does'} not parse: {where}{more}; "
            "what is near may be missing",
            "yellow",
        )
    skipped = [outline for outline in left_out if outline.kind]
    if skipped:
        kinds = Counter(outline.kind for outline in skipped)
        why = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        terminal.note(f"left out {len(skipped)} file{'s' * (len(skipped) > 1)}: {why}", "dim")
    if not something:
        terminal.note("nothing was found")
