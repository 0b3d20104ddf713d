"""Text as a person's terminal may see it: pure functions."""

from __future__ import annotations

import re
from functools import lru_cache

from repoagent import display_text

# What moves the cursor, changes colours or titles, rings, or makes text read other than it is: C0 but tab and
# newline, DEL, C1, bytes that are no UTF-8 (as surrogates), marks of direction, and what has no width at all.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_STYLES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "reverse": "7",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "on-red": "41",
}
_TAB = 8


def clean(text: str) -> str:
    """`text` with everything made visible that could act on a terminal, as less shows it: ^[, <U+202E>, <FF>.

    Newlines and tabs stay. Each character is looked at alone, so text may come in pieces.
    """
    if text.isascii() and text.isprintable():  # most of all text: the pattern takes 1 ms to be made
        return text
    return _unsafe().sub(lambda match: display_text.visible(match[0]), text)


def one_line(text: str) -> str:
    """`text` made clean, on one line: its line ends and tabs are shown too, as ^J and ^I."""
    return clean(text).replace("\n", "^J").replace("\t", "^I")


def fold(text: str, width: int) -> str:
    """`text`, clean, with each long line broken before a ` · `, else between words, at the indent it has; what holds no
    blank stays whole."""
    return "\n".join(part for line in text.split("\n") for part in _folded(line, width))


def paint(text: str, *styles: str) -> str:
    """`text` in these styles; they end with it. An empty text stays empty."""
    if not text or not styles:
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[m"


def display_width(text: str, start: int = 0) -> int:
    """How many columns `text`, clean and of one line, takes when it begins in column `start`."""
    column = start
    for character in text:
        column += width(character, column)
    return column - start


def width(character: str, column: int = 0) -> int:
    """How many columns one character takes in `column`."""
    if character == "\t":
        return _TAB - column % _TAB
    return display_text.width(character)


def _folded(line: str, width: int) -> list[str]:
    if display_width(line) <= width:
        return [line]
    words = line.lstrip(" ")
    indent = line[: len(line) - len(words)]
    parts = words.split(" · ")
    units = [parts[0], *(f"· {part}" for part in parts[1:])]
    lines: list[str] = []
    for unit in units:
        room = width - display_width(indent)
        for piece in [unit] if display_width(unit) <= room else unit.split(" "):
            if lines and display_width(f"{lines[-1]} {piece}") <= width:
                lines[-1] += f" {piece}"
            else:
                lines.append(indent + piece)
    return lines


@lru_cache(maxsize=1)
def _unsafe() -> re.Pattern[str]:
    return re.compile(_UNSAFE)
