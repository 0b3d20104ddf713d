"""A split as a table that is read at a glance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from repoagent.cli.glance import bar, columns, front, shorten
from repoagent.cli.terminal import has_utf8
from repoagent.cli.text import clean, paint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from repoagent.cli.terminal import Terminal
    from repoagent.split.artifact import Index, IndexedSegment, Refreshed

_HEAD = ("file", "lines", "bytes", "what", "cut at")
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
_GAP = 2


class _Style(NamedTuple):
    """How much room there is (None for as much as it takes), whether to paint, and whether only ASCII is shown."""

    width: int | None
    color: bool
    ascii: bool


def render(index: Index, data: bytes, terminal: Terminal, cwd: Path, done: Refreshed | None = None) -> str:
    """The segments of `data` for this terminal, or for a pipe: there all of them."""
    style = _Style(terminal.width if terminal.shows else None, terminal.color, not has_utf8(os.environ))
    folder = _shown_path(index.folder, cwd)
    lines = [*_headline(index, folder, style), ""]
    if index.segments:
        most = len(index.segments) if style.width is None else _MOST
        lines += [*_table(index, data, done, style, most), ""]
        if len(index.segments) > most:
            lines.append(f"and {len(index.segments) - most:,} more, in {folder}/index.json")
    lines += _tail(folder, done, style)
    return "".join(f"{line}\n" for line in lines)


def _headline(index: Index, folder: str, style: _Style) -> Iterator[str]:
    source = index.source
    count = len(index.segments)
    kind = ", ".join(
        filter(
            None, (index.language, source.encoding, source.line_ending if source.line_ending != "lf" else "")
        )
    )
    name = clean(source.path or "standard input")
    yield from _wrapped(
        f"{count:,} segment{'s' * (count != 1)} of {name} ({source.size:,} bytes, {kind}) in {folder}",
        style,
        "bold",
    )


def _tail(folder: str, done: Refreshed | None, style: _Style) -> Iterator[str]:
    if done is None:
        yield from _wrapped(f"edit them, then: repoagent split --join {folder}", style, "dim")
        return
    told = (
        (done.to_merge, "yours, and the source was changed there too: will need a merge", "yellow"),
        ([name for name in done.edited if name not in done.to_merge], "yours, left as it is", "green"),
        (done.merged, "your edit is in the source by now", "green"),
        (done.written, "has new text", ""),
        (done.added, "is new", ""),
        (done.removed, "is gone", ""),
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


def _table(index: Index, data: bytes, done: Refreshed | None, style: _Style, most: int) -> Iterator[str]:
    segments = index.segments[:most]
    room = style.width
    cells = 10 if room is None or room >= 76 else 6 if room >= 60 else 0
    with_cut = room is None or room >= 66
    rows = [
        (
            segment.file,
            _lines(segment),
            _size(segment, index.target, cells, style),
            _what(index, segment, data),
            _CUT[segment.boundary] + (", too long" if segment.oversize else "") if with_cut else "",
        )
        for segment in segments
    ]
    head = (*_HEAD[:4], _HEAD[4] if with_cut else "")
    widths = [max(map(columns, column)) for column in zip(head, *rows, strict=True)]
    if room is not None:
        widths[3] = min(widths[3], max(room - sum(widths[:3]) - widths[4] - _GAP * (4 if with_cut else 3), 4))
    else:
        widths[3] = min(widths[3], 60)
    ellipsis = "..." if style.ascii else "…"
    mine = {*done.edited} if done else set()
    for row in (head, *rows):
        filled = [_fill(_cut(cell, width, ellipsis), width) for cell, width in zip(row, widths, strict=True)]
        if style.color:
            filled = _painted(filled, head=row is head, mine=row[0] in mine)
        yield (" " * _GAP).join(filled[: None if with_cut else 4]).rstrip()


def _painted(cells: list[str], *, head: bool, mine: bool) -> list[str]:
    if head:
        return [paint(cell, "bold") for cell in cells]
    styles = ("yellow" if mine else None, "dim", "cyan", None, "red" if "too long" in cells[4] else "dim")
    return [paint(cell, one) if one else cell for cell, one in zip(cells, styles, strict=True)]


def _size(segment: IndexedSegment, target: int, cells: int, style: _Style) -> str:
    size = segment.end - segment.start
    number = f"{size:>9,}"
    return f"{bar(size / target, cells, ascii_only=style.ascii)} {number}" if cells else number


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
        encoding = {"unknown-8bit": "latin-1", "binary": "latin-1"}.get(
            index.source.encoding, index.source.encoding
        )
        start = data[segment.start : min(segment.end, segment.start + 400)].decode(encoding, "replace")
        text = next((line.strip() for line in start.splitlines() if line.strip()), "")[:100]
    return clean(text.replace("\n", " ").replace("\t", " "))


def _cut(cell: str, width: int, ellipsis: str) -> str:
    return cell if columns(cell) <= width else front(cell, width - len(ellipsis)) + ellipsis


def _fill(cell: str, width: int) -> str:
    return cell + " " * (width - columns(cell))


def _shown_path(folder: Path, cwd: Path) -> str:
    """The folder as a person would type it here."""
    near = folder.relative_to(cwd) if folder.is_relative_to(cwd) else folder
    return clean(str(near))


def _wrapped(text: str, style: _Style, *styles: str) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        word = word if style.width is None else shorten(word, style.width, "..." if style.ascii else "…")
        if line and style.width is not None and columns(line) + 1 + columns(word) > style.width:
            yield paint(line, *styles) if style.color else line
            line = ""
        line = f"{line} {word}" if line else word
    yield paint(line, *styles) if style.color else line
