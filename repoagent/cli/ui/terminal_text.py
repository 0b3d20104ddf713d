"""Make text safe for a terminal, measure it and style it. Pure functions."""

from __future__ import annotations

import re

from repoagent import display_text

# Characters that move the cursor, change colors or the title, ring the bell, or disguise text: C0 except tab and
# newline, DEL, C1, invalid UTF-8 (as surrogates), direction marks, and characters without a width.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_STYLES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "on-red": "41"}
_STYLES |= {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}
_TAB = 8


def clean(text: str) -> str:
    """Replace control and invisible characters as less does: ^[, <U+202E>, <FF>. Newlines and tabs stay."""
    if text.isascii() and text.isprintable():  # most text; `re` compiles the pattern, for 1 ms, when needed
        return text
    return re.sub(_UNSAFE, lambda match: display_text.visible(match[0]), text)


def one_line(text: str) -> str:
    """`text`, sanitized and on one line: newlines and tabs become ^J and ^I."""
    return clean(text).replace("\n", "^J").replace("\t", "^I")


def paint(text: str, *styles: str) -> str:
    """Apply styles to `text` and reset them after it. Empty text stays empty."""
    if not text or not styles:
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[m"


def display_width(text: str) -> int:
    """The display width of `text`, one sanitized line."""
    if text.isascii() and "\t" not in text:
        return len(text)
    column = 0
    for character in text:
        column += width(character, column)
    return column


def width(character: str, column: int = 0) -> int:
    """The display width of a character in `column`."""
    return _TAB - column % _TAB if character == "\t" else display_text.width(character)


def fold(text: str, width: int) -> str:
    """Break long lines of sanitized `text` before a ` · ` or between words, keeping the indent."""
    lines: list[str] = []
    for line in text.split("\n"):
        if display_width(line) <= width:
            lines.append(line)
            continue
        words = line.lstrip(" ")
        indent = line[: len(line) - len(words)]
        first = len(lines)
        for number, part in enumerate(words.split(" · ")):
            unit = f"· {part}" if number else part
            for piece in [unit] if display_width(indent + unit) <= width else unit.split(" "):
                if len(lines) > first and display_width(f"{lines[-1]} {piece}") <= width:
                    lines[-1] += f" {piece}"
                else:
                    lines.append(indent + piece)
    return "\n".join(lines)
