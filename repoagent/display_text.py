"""Text without the secrets in it that the environment holds, or that look like one: for reports and traces.

It knows shapes, not providers, and loads nothing; what is sent to a model goes through `store.masking`.

One character as it is shown: how wide it is, and how to show one that can't be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET_NAME = re.compile(r"(key|token|secret|passw|credential)", re.IGNORECASE)
_SECRETS = (
    re.compile(r"\b(?:sk|pk|ghp|gho|ghs|github_pat|glpat|xox[a-z]|AIza|AKIA)[-_A-Za-z0-9]{12,}"),
    re.compile(r"(?<=://)[^/@\s]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )\S+"),
    re.compile(r"(?i)(?:key|token|secret|password)[\"']?[ \t]*[=:]\s*[\"']?([^\s\"']+)"),
)


def redact(text: str, env: Mapping[str, str]) -> str:
    """`text` without the secrets of the environment, nor anything else that looks like one."""
    values = {value for name, value in env.items() if _SECRET_NAME.search(name) and len(value) >= 6}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***")
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match[0].replace(match[match.lastindex or 0], "***"), text)
    return text


def width(character: str) -> int:
    """How many columns one character takes; no tab."""
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def visible(character: str) -> str:
    """What stands for a character that would act on a terminal or a reader's eye: ^J, <FF>, <U+202E>."""
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as surrogateescape holds it
        return f"<{code - 0xDC00:02X}>"
    return f"<U+{code:04X}>"
