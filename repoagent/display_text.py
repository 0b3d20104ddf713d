"""Text for output: `plural`, `list_some` and `truncate` build sentences; `redact` removes secrets from reports and
traces; `sanitize` makes text safe for a terminal, `character_width` and `display_width` measure it, `paint` styles it.

`redact` matches common forms of secrets and imports nothing; `storage.secrets` masks text for a model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_SECRET_NAME = re.compile(r"(key|token|secret|passw|credential)", re.IGNORECASE)
_SECRETS = (
    re.compile(
        r"\b(?:sk|pk|gsk|xai|hf|r8|pplx|ghp|gho|ghs|github_pat|glpat|xox[a-z]|AIza|AKIA)[-_A-Za-z0-9]{12,}"
    ),
    re.compile(r"(?<=://)[^/@\s]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )\S+"),
    re.compile(r"(?i)(?:key|token|secret|password)[\"']?[ \t]*[=:]\s*[\"']?([^\s\"']+)"),
)


def plural(number: int, noun: str) -> str:
    """A number with its noun: 1 note, 2,000 notes, 3 memories."""
    return f"{number:,} {noun if number == 1 else re.sub(r'(?<![aeiou])y$', 'ie', noun) + 's'}"


def list_some(items: Sequence[str], most: int, rest: str = " and {} more") -> str:
    """Join the first `most` items with commas. If there are more, append `rest` with their number filled in."""
    return ", ".join(items[:most]) + (rest.format(len(items) - most) if len(items) > most else "")


def truncate(text: str, most: int) -> str:
    """`text`, cut to at most `most` characters, with an ellipsis if it is longer."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def redact(text: str, env: Mapping[str, str]) -> str:
    """Return `text` with *** in place of secrets: the values of variables in `env` with names such as API_KEY, and
    strings that look like a secret."""
    values = {value for name, value in env.items() if _SECRET_NAME.search(name) and len(value) >= 6}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***")
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match[0].replace(match[match.lastindex or 0], "***"), text)
    return text


def character_width(character: str, column: int = 0) -> int:
    """The display width of a character that is printed at `column`. A tab extends to the next tab stop."""
    if character == "\t":
        return _TAB - column % _TAB
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def visible_form(character: str) -> str:
    """The visible form of a control, invalid or invisible character: ^J, <FF>, <U+202E>."""
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0xDC80 <= code <= 0xDCFF:  # an invalid UTF-8 byte, decoded with surrogateescape
        return f"<{code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"


# Characters that move the cursor, change colors or the title, ring the bell, or disguise text: C0 except tab and
# newline, DEL, C1, invalid UTF-8 (as surrogates), direction marks, and characters without a width.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_STYLES = {"bold": "1", "dim": "2", "italic": "3", "underline": "4", "reverse": "7", "on-red": "41"}
_STYLES |= {"red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}
_TAB = 8


def sanitize(text: str) -> str:
    """Replace control and invisible characters with visible forms, as less does: ^[, <U+202E>, <FF>. Newlines and tabs
    are kept."""
    if text.isascii() and text.isprintable():  # most text; `re` compiles the pattern, for 1 ms, when needed
        return text
    return re.sub(_UNSAFE, lambda match: visible_form(match[0]), text)


def one_line(text: str) -> str:
    """`text`, sanitized and on one line: newlines and tabs become ^J and ^I."""
    return sanitize(text).replace("\n", "^J").replace("\t", "^I")


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
        column += character_width(character, column)
    return column


def wrap_line(text: str, width: int) -> str:
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
