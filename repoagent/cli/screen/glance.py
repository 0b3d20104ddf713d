"""What a table shows at a glance: how long ago, a bar, a path that fits. Pure functions of clean text."""

from __future__ import annotations

from repoagent.cli.screen.clean import columns as any_columns
from repoagent.cli.screen.clean import width

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


def ago(seconds: float, *, short: bool = False) -> str:
    """How long ago that was, in the largest unit that says enough: "3 weeks ago", short "3w"."""
    days = seconds / 86400
    for unit, length in _SPANS:
        if days >= _FIRST[unit]:
            count = int(days / length)
            if short:
                return f"{count}{'mo' if unit == 'month' else unit[0]}"
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return "now" if short else "just now"


def columns(text: str) -> int:
    """How many columns a clean text takes; at once for what most tables are made of."""
    simple = text.isascii() or text.translate(_NARROW).isascii()
    return len(text) if simple else any_columns(text)


def bar(share: float, cells: int, *, ascii_only: bool = False) -> str:
    """A share of 0 to 1 as a bar in so many columns; more than nothing always shows."""
    filled = min(max(share, 0.0), 1.0) * cells
    if ascii_only:
        return ("#" * max(round(filled), share > 0)).ljust(cells)
    eighths = max(round(filled * 8), share > 0)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(cells)


def shorten(path: str, room: int, ellipsis: str = "…") -> str:
    """A clean path in at most `room` columns: what is left out is in its middle, the name goes last."""
    if columns(path) <= room:
        return path
    left = max(room - columns(ellipsis), 1)
    name = columns(path[path.rfind("/") :])
    tail = min(max(name, left * 2 // 3), left)
    end = _tail(path, tail)
    return front(path, left - columns(end)) + ellipsis + end


def front(text: str, room: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += width(character)
        if used > room:
            return text[:place]
    return text


def _tail(text: str, room: int) -> str:
    """The end of a text; a mark that has lost the character it belongs to is left out."""
    used, start = 0, len(text)
    while start and used + width(text[start - 1]) <= room:
        start -= 1
        used += width(text[start])
    while start < len(text) and width(text[start]) == 0:
        start += 1
    return text[start:]
