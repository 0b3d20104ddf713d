"""What was found in the memory, as a person reads it: three lines each, fitted to the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import clean, paint
from repoagent.cli.screen.glance import columns, shorten
from repoagent.cli.screen.terminal import has_utf8

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.memory.recall import Answer, Hit

LEAST = 40  # columns: narrower than this nothing can be read
_INDENT = "    "
_LINES = 2  # of a snippet
_IN_A_PIPE = 200  # characters of a snippet
_STYLES = {"note": "yellow", "edit": "green", "conversation": "cyan", "commit": "blue", "summary": "blue"}


def snippet_width(terminal: Terminal) -> int:
    """How many characters of a text there is room for."""
    if not terminal.shows:
        return _IN_A_PIPE
    return min(_LINES * (max(LEAST, terminal.width) - len(_INDENT)) - 8, 2 * _IN_A_PIPE)


def show(found: Answer, top: Path, terminal: Terminal) -> None:
    """Write the results."""
    wide = max(LEAST, terminal.width) if terminal.shows else None
    blocks = ["".join(f"{line}\n" for line in _block(hit, top, wide, terminal.color)) for hit in found.hits]
    text = "\n".join(blocks)
    terminal.styled(text if has_utf8(os.environ) else text.replace("…", "."))


def _block(hit: Hit, top: Path, wide: int | None, color: bool) -> Iterator[str]:
    about = [
        hit.kind if hit.kind not in hit.name else "",
        hit.date,
        "about an older text" if hit.stale else "",
    ]
    rest = "  ".join(part for part in about if part)
    where = _one_line(hit.file or hit.name)
    if hit.file and hit.name:
        rest = f"{_one_line(hit.name)}  {rest}".rstrip()
    if wide is not None:
        where = shorten(where, max(12, wide - columns(rest) - 2))
    yield f"{_painted(where, color, 'bold')}  {_painted(rest, color, _STYLES[hit.kind])}".rstrip()
    for line in _wrapped(hit, None if wide is None else wide - len(_INDENT)):
        yield _INDENT + "".join(_painted(text, color and marked, "bold", "red") for text, marked in line)
    place = _one_line(f"{os.path.relpath(hit.path, top)}:{hit.line}")
    if wide is not None:
        place = shorten(place, wide - len(_INDENT))
    yield _INDENT + _painted(place, color, "dim")


def _wrapped(hit: Hit, room: int | None) -> list[list[tuple[str, bool]]]:
    """The snippet in lines of at most `room` columns, each in pieces: (clean text, whether it is a word that fits)."""
    pieces: list[tuple[str, bool]] = []
    at = 0
    for start, end in (*hit.marks, (len(hit.snippet), len(hit.snippet))):
        pieces += [(word, False) for word in _words(hit.snippet[at:start])]
        pieces.append((_one_line(hit.snippet[start:end]), True))
        at = end
    lines: list[list[tuple[str, bool]]] = [[]]
    used = 0
    for text, marked in pieces:
        wide = columns(text)
        if room is not None and used + wide > room and used and text.strip():
            lines[-1] = _stripped(lines[-1])
            lines.append([])
            used = 0
        while room is not None and columns(text) > room:
            cut = room
            while columns(text[:cut]) > room:
                cut -= 1
            lines[-1].append((text[:cut], marked))
            lines.append([])
            text = text[cut:]
        if text and (used or text.strip()):
            lines[-1].append((text, marked))
            used += columns(text)
    return [_stripped(line) for line in lines if any(text.strip() for text, _ in line)]


def _words(text: str) -> list[str]:
    """The words of `text` and the spaces between them; a word does not part from what stands at it."""
    found: list[str] = []
    for part in text.split(" "):
        found += [_one_line(part), " "]
    return [part for part in found[:-1] if part]


def _stripped(line: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    while line and line[-1][0] == " ":
        line = line[:-1]
    return line


def _one_line(text: str) -> str:
    return clean(text).replace("\n", "^J").replace("\t", " ")


def _painted(text: str, color: bool, *styles: str) -> str:
    return paint(text, *styles) if color else text
