"""The languages that files are split in, as a table or as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.screen.clean import paint
from repoagent.cli.screen.glance import columns, front

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal

_HEAD = ("language", "grammar", "here", "suffixes and names")


class _Known(NamedTuple):
    """A language, where its grammar is from ("built in" or "extra"), and whether it is installed."""

    name: str
    grammar: str
    installed: bool
    suffixes: tuple[str, ...]
    names: tuple[str, ...]


def show(terminal: Terminal, *, as_json: bool) -> None:
    """Show each language: its suffixes, whether its grammar comes with repoagent or with an extra, and is here."""
    found = _known()
    if as_json:
        listed = [one._asdict() for one in found]
        terminal.styled(json.dumps({"version": 1, "languages": listed}, indent=2) + "\n")
        return
    rows = [
        (one.name, one.grammar, "yes" if one.installed else "no", " ".join((*one.suffixes, *one.names)))
        for one in found
    ]
    widths = [max(map(columns, column)) for column in zip(_HEAD, *rows, strict=True)]
    for row in (_HEAD, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        line = front(line, terminal.width) if terminal.shows else line
        style = ("bold",) if row is _HEAD else () if row[2] == "yes" else ("dim",)
        terminal.styled((paint(line, *style) if terminal.color else line) + "\n")
    if any(not one.installed for one in found):
        from repoagent.extras import install_extra

        terminal.note(f"for more of the grammars: {install_extra('languages')}")
    terminal.note("a file in any other language is split at blank lines and indentation")


def _known() -> list[_Known]:
    from importlib.util import find_spec

    from repoagent.split.languages import LANGUAGES
    from repoagent.split.long_tail import LONG_TAIL, at_hand

    own = [
        _Known(name, "built in", find_spec(spec.module) is not None, spec.suffixes, spec.names)
        for name, spec in sorted(LANGUAGES.items())
        if name not in LONG_TAIL
    ]
    tail = [
        _Known(name, "extra", at_hand(name), one.suffixes, one.names)
        for name, one in sorted(LONG_TAIL.items())
    ]
    return own + tail
