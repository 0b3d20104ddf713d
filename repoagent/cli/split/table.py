"""A split as a table that is read at a glance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.screen.clean import clean, one_line, paint
from repoagent.cli.screen.glance import Cell, Column, bar, columns, folded, front
from repoagent.cli.screen.glance import table as table_of
from repoagent.cli.screen.terminal import has_utf8
from repoagent.split.artifact.shown import near, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.split.artifact import Index, IndexedSegment, Refreshed

_COLUMNS = (
    Column("file"),
    Column("lines"),
    Column("", dropped=2),
    Column("bytes", right=True),
    Column("what", cut="end", least=16),
    Column("cut at", dropped=1),
)
_CUT = {
    "start": "start",
    "node": "syntax",
    "embedded": "embedded",
    "blank": "blank line",
    "indent": "indentation",
    "line": "line",
    "byte": "inside a line",
    "kept": "as before",
}
_MOST = 60  # rows that a person is shown
_WHAT = 60  # columns of what a segment holds, in a pipe


class _Style(NamedTuple):
    """How much room there is (None for as much as it takes), whether to paint, and whether only ASCII is shown."""

    width: int | None
    color: bool
    ascii: bool


def render(index: Index, data: bytes, terminal: Terminal, cwd: Path, done: Refreshed | None = None) -> str:
    """The segments of `data` for this terminal, or for a pipe: there all of them."""
    style = _Style(terminal.width if terminal.shows else None, terminal.color, not has_utf8(os.environ))
    folder = one_line(near(index.folder, cwd))
    lines = [*_headline(index, folder, style), ""]
    shown = index.segments if done is None else _concerned(index, done)
    if shown:
        most = len(shown) if style.width is None else _MOST
        lines += [*_table(index, shown[:most], data, done, style), ""]
        if len(shown) > most:
            lines.append(f"and {len(shown) - most:,} more, in {folder}/index.json")
    if done is not None:
        lines += _told(done, style)
    elif index.segments:
        lines.append(_command(one_line(quoted(index.folder, cwd)), style))
    else:
        lines.append("it is empty: there is nothing to edit")
    return "".join(f"{line}\n" for line in lines)


def _headline(index: Index, folder: str, style: _Style) -> Iterator[str]:
    source = index.source
    count = len(index.segments)
    ending = "" if source.line_ending in {"lf", "none"} else source.line_ending
    kind = ", ".join(filter(None, (index.language, source.encoding, ending)))
    size = f"{source.size:,} byte{'s' * (source.size != 1)}"
    name = one_line(source.path or "standard input")
    yield from _wrapped(
        f"{count:,} segment{'s' * (count != 1)} of {name} ({size}, {kind}) in {folder}",
        style,
        "bold",
    )


def _command(folder: str, style: _Style) -> str:
    """What to run next; the terminal wraps it, so that it can be copied."""
    text = f"edit them, then: repoagent split --join {folder}"
    return paint(text, "dim") if style.color else text


def _told(done: Refreshed, style: _Style) -> Iterator[str]:
    told = (
        (done.to_merge, "yours, and the source was changed there too: will need a merge", "yellow"),
        ([name for name in done.edited if name not in done.to_merge], "yours, left as it is", "green"),
        (done.merged, "your edit is in the source by now", "green"),
        (done.written, "new text", ""),
        (done.added, "new", ""),
        (done.removed, "gone", ""),
    )
    said = False
    for names, what, color in told:
        if names:
            said = True
            yield from _wrapped(f"{_some(names)}: {what}", style, *([color] if color else []))
    if not said:
        yield from _wrapped("nothing has changed", style, "dim")


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _concerned(index: Index, done: Refreshed) -> tuple[IndexedSegment, ...]:
    """Of a refresh the segments that something is to be said of."""
    names = {*done.written, *done.added, *done.edited, *done.merged}
    return tuple(segment for segment in index.segments if segment.file in names)


def _table(
    index: Index, segments: Sequence[IndexedSegment], data: bytes, done: Refreshed | None, style: _Style
) -> Iterator[str]:
    bars = 10 if style.width is None or style.width >= 76 else 6
    mine = {*done.edited} if done else set()
    rows: list[tuple[Cell, ...]] = []
    for segment in segments:
        what, end = _what(index, segment, data), "red" if segment.oversize else "dim"
        rows.append(
            (
                (segment.file, *(["yellow"] if segment.file in mine else [])),
                (_lines(segment), "dim"),
                (bar((segment.end - segment.start) / index.target, bars, ascii_only=style.ascii), "cyan"),
                (f"{segment.end - segment.start:,}",),
                (what if style.width or columns(what) <= _WHAT else front(what, _WHAT) + "…",),
                (_CUT[segment.boundary] + (", too long" if segment.oversize else ""), end),
            )
        )
    ellipsis = "..." if style.ascii else "…"
    return table_of(_COLUMNS, rows, style.width, color=style.color, ellipsis=ellipsis)


def _lines(segment: IndexedSegment) -> str:
    more = segment.last_line > segment.first_line
    return f"{segment.first_line:,}-{segment.last_line:,}" if more else f"{segment.first_line:,}"


def _what(index: Index, segment: IndexedSegment, data: bytes) -> str:
    """What holds it, and the symbols that begin in it, not those inside of them; else its first line."""
    if segment.start == segment.end:
        return "(gone from the source)"
    names: list[str] = []
    depth = segment.symbols[0].depth if segment.symbols else 0
    for symbol in segment.symbols:
        if symbol.depth <= depth:
            depth = symbol.depth
            names.append(symbol.name)
    parts = [" > ".join(segment.scope), ", ".join(names[:12])]
    text = ": ".join(filter(None, parts))
    if not text:
        encoding = "utf-8" if index.source.encoding == "utf-8" else "latin-1"
        start = data[segment.start : min(segment.end, segment.start + 400)].decode(encoding, "replace")
        text = next((line.strip() for line in start.splitlines() if line.strip()), "")[:100]
    return clean(text.replace("\n", " ").replace("\t", " "))


def _wrapped(text: str, style: _Style, *styles: str) -> Iterator[str]:
    for line in folded(text, style.width, "..." if style.ascii else "…"):
        yield paint(line, *styles) if style.color else line
