"""Text that goes into a document: harmless characters only, always writable as UTF-8."""

from __future__ import annotations

import re
import unicodedata

from repoagent import glyphs

_KEPT = "\t\n\u200c\u200d"  # white space, and what joins the parts of a letter or an emoji


def plain(text: str) -> str:
    """`text` with what acts on a terminal or turns text around made visible; newlines and tabs stay, CRLF is one."""
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(glyphs.visible(one) if _acts(one) else one for one in text)


def plain_line(text: str) -> str:
    """The same on one line, its parts joined by single spaces."""
    return " ".join(plain(text).split())


def writable(text: str) -> str:
    """`text` as it is, but for what UTF-8 can't say: bytes that were no UTF-8 are U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def shortened(text: str, room: int) -> str:
    """At most `room` characters of `text`, an ellipsis where it was cut."""
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def count(number: int, one: str, several: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def _acts(character: str) -> bool:
    return character not in _KEPT and unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
