"""Names and sentences as a picture shows them: nothing in them acts on a terminal, a page or a reader's eye."""

from __future__ import annotations

import os
from datetime import datetime, timezone

from repoagent.glyphs import visible, width


def shown(text: str | bytes) -> str:
    """A name or a subject on one line, what can't be printed made visible: ^J, <FF> for a byte that is no UTF-8,
    <U+202E>. What is left is valid in XML.
    """
    text = os.fsdecode(text) if isinstance(text, bytes) else text
    return text if text.isprintable() else "".join(c if c.isprintable() else visible(c) for c in text)


def columns(text: str) -> int:
    """How many columns of a fixed-width font a shown text takes."""
    return len(text) if text.isascii() else sum(width(character) for character in text)


def shorten(text: str, room: int) -> str:
    """A shown text in at most `room` columns; what is left out is in its middle."""
    if columns(text) <= room:
        return text
    end, start = len(text), 0
    left = room - 1
    used = 0
    while used + width(text[end - 1]) <= left - left // 3:
        end -= 1
        used += width(text[end])
    while end < len(text) and not width(text[end]):
        end += 1  # a mark that has lost its character
    while used + width(text[start]) <= left:
        used += width(text[start])
        start += 1
    return f"{text[:start]}…{text[end:]}"


def day(seconds: int | None) -> str:
    """The day of a commit, in universal time; "" for none."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):  # a date that only git can hold
        return "?"


def percent(together: int, commits: int) -> int:
    """The share in whole percent."""
    return round(100 * together / commits) if commits else 0
