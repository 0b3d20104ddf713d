"""Text for output: `plural`, `list_some` and `cut` build sentences; `redact` removes secrets from reports and traces;
`width` and `visible` return the display width and the visible form of a character.

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
    """The first `most` items, separated by commas, and `rest` with the number of the others, if any."""
    return ", ".join(items[:most]) + (rest.format(len(items) - most) if len(items) > most else "")


def cut(text: str, most: int) -> str:
    """`text`, cut to at most `most` characters, with an ellipsis if it is longer."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def redact(text: str, env: Mapping[str, str]) -> str:
    """`text` with *** for secrets: the values of variables in `env` with names such as API_KEY, and what looks like
    one."""
    values = {value for name, value in env.items() if _SECRET_NAME.search(name) and len(value) >= 6}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***")
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match[0].replace(match[match.lastindex or 0], "***"), text)
    return text


def width(character: str) -> int:
    """The display width of one character (not a tab) in columns."""
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def visible(character: str) -> str:
    """The visible form of a control, invalid or invisible character: ^J, <FF>, <U+202E>."""
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0xDC80 <= code <= 0xDCFF:  # an invalid UTF-8 byte, decoded with surrogateescape
        return f"<{code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"
