"""Tables, and texts for their cells: a time ago, a bar, a shortened path. Pure functions on sanitized text.

All tables look alike: no lines, a dim head, numbers right-aligned, and one or two columns that shrink to fit the
terminal. Importing rich's tables would take ten times as long as this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from repoagent.cli.ui.terminal_text import display_width as any_columns
from repoagent.cli.ui.terminal_text import paint, width

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NARROW = str.maketrans(dict.fromkeys(_EIGHTHS + "–…", "x"))
_SPANS = (
    ("year", 365.2425),
    ("month", 30.44),
    ("week", 7.0),
    ("day", 1.0),
    ("hour", 1 / 24),
    ("minute", 1 / 1440),
)
_FIRST = {"year": 365.2425, "month": 60.0, "week": 14.0, "day": 1.0, "hour": 1 / 24, "minute": 1 / 1440}


_GAP = 2  # columns between those of a table

Cell = tuple[str, ...]  # a text and its styles; "path" dims the folder of one


class Column(NamedTuple):
    """A column of a table. A text that is too long is `cut` at its "end" or "middle", to no less than `least`; then
    columns are `dropped`, the highest number first, 0 never."""

    head: str
    right: bool = False
    cut: str = ""
    least: int = 8
    dropped: int = 0


def table(
    heads: Sequence[Column],
    rows: Sequence[Sequence[Cell]],
    limit: int | None,
    *,
    color: bool,
    ellipsis: str = "…",
    below: Mapping[int, Sequence[str]] | None = None,
) -> Iterator[str]:
    """The lines of a table in `limit` columns (None: unlimited). `below` has lines to print after a row. Leaves out
    columns without text."""
    shown = [at for at in range(len(heads)) if any(row[at][0] for row in rows)]
    natural = {at: max(columns(heads[at].head), *(columns(row[at][0]) for row in rows)) for at in shown}
    if limit is not None:
        shown, natural = _fitted(heads, shown, natural, limit)
    head = [(heads[at].head,) for at in range(len(heads))]
    for number, row in enumerate([head, *rows]):
        cells = []
        for at in shown:
            text, *styles = row[at]
            if columns(text) > natural[at]:
                cut = shorten if heads[at].cut == "middle" else _cut_end
                text = cut(text, natural[at], ellipsis)
            pad = " " * (natural[at] - columns(text))
            if color and number:
                text = _path(text) if styles == ["path"] else paint(text, *styles)
            cells.append(pad + text if heads[at].right else text if at == shown[-1] else text + pad)
        line = (" " * _GAP).join(cells).rstrip()
        yield paint(line, "dim") if color and not number else line
        if number and below:
            yield from below.get(number - 1, ())


def _fitted(
    heads: Sequence[Column], shown: list[int], natural: dict[int, int], limit: int
) -> tuple[list[int], dict[int, int]]:
    """The columns that fit, and their widths."""

    def least(at: int) -> int:
        return min(natural[at], heads[at].least) if heads[at].cut else natural[at]

    while sum(map(least, shown)) + _GAP * (len(shown) - 1) > limit:
        droppable = [at for at in shown if heads[at].dropped]
        if not droppable:
            break
        shown = [at for at in shown if at != max(droppable, key=lambda at: heads[at].dropped)]
    widths = {at: least(at) for at in shown}
    left = limit - sum(widths.values()) - _GAP * (len(shown) - 1)
    wanting = sorted((at for at in shown if heads[at].cut), key=lambda at: natural[at] - widths[at])
    for number, at in enumerate(wanting):
        extra = min(natural[at] - widths[at], left // (len(wanting) - number))
        widths[at] = max(1, widths[at] + extra)
        left -= extra
    return shown, widths


def _path(path: str) -> str:
    folder, slash, name = path.rpartition("/")
    return paint(folder + slash, "dim") + name


def _cut_end(text: str, limit: int, ellipsis: str) -> str:
    return front(text, max(0, limit - len(ellipsis))).rstrip() + ellipsis[:limit]


def folded(text: str, limit: int | None, ellipsis: str = "…") -> Iterator[str]:
    """Words in lines of `limit` columns; a longer word is cut in its middle."""
    line = ""
    for word in text.split(" "):
        if limit is not None:
            word = shorten(word, limit, ellipsis)
            if line and columns(line) + 1 + columns(word) > limit:
                yield line
                line = ""
        line = f"{line} {word}" if line else word
    yield line


def ago(seconds: float, *, short: bool = False) -> str:
    """A duration in its largest suitable unit: "3 weeks ago", short "3w"."""
    days = seconds / 86400
    for unit, length in _SPANS:
        if days >= _FIRST[unit]:
            count = int(days / length)
            if short:
                return f"{count}{'mo' if unit == 'month' else unit[0]}"
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "now" if short else "just now"


def columns(text: str) -> int:
    """The columns of a text, with a shortcut for most texts."""
    simple = text.isascii() or text.translate(_NARROW).isascii()
    return len(text) if simple else any_columns(text)


def bar(share: float, cells: int, *, ascii_only: bool = False) -> str:
    """A share of 0 to 1 as a bar of `cells` columns; anything above 0 is visible."""
    filled = min(max(share, 0.0), 1.0) * cells
    if ascii_only:
        return ("#" * max(round(filled), share > 0)).ljust(cells)
    eighths = max(round(filled * 8), share > 0)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def shorten(path: str, limit: int, ellipsis: str = "…") -> str:
    """A path in at most `limit` columns, without its middle; the name is kept longest."""
    if columns(path) <= limit:
        return path
    left = max(limit - columns(ellipsis), 1)
    name = columns(path[path.rfind("/") :])
    tail = min(max(name, left * 2 // 3), left)
    end = _tail(path, tail)
    return front(path, left - columns(end)) + ellipsis + end


def front(text: str, limit: int) -> str:
    """The beginning of a text in at most `limit` columns."""
    used = 0
    for at, character in enumerate(text):
        used += width(character)
        if used > limit:
            return text[:at]
    return text


def _tail(text: str, limit: int) -> str:
    """The end of a text, without a combining mark that lost its character."""
    used, start = 0, len(text)
    while start and used + width(text[start - 1]) <= limit:
        start -= 1
        used += width(text[start])
    while start < len(text) and width(text[start]) == 0:
        start += 1
    return text[start:]
