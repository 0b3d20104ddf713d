"""A file as text of one byte per unit, so that an offset in the text is one in the file, whatever its encoding."""

from __future__ import annotations

import re
from typing import NamedTuple

_SAMPLE = 4096
_HIGH = bytes(range(128)) + b"_" * 128  # a letter, so that a name stays a name
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_WIDE = re.compile(r"[^\x00-\x7f]")


class Units(NamedTuple):
    """`text` is what a parser reads: offset `n` in it is offset `(n - origin) * width` in the file.

    `width` is the size of a unit in bytes (2 and 4 for UTF-16 and UTF-32), `origin` 0, or -1 where a byte-order mark
    was left out. `exact`: the text is the file itself, in UTF-8. `high`: the index of the high byte in a UTF-16 unit.
    """

    text: bytes
    width: int = 1
    origin: int = 0
    exact: bool = True
    high: int = 0

    def offset(self, place: int) -> int:
        """The offset in the file."""
        return (place - self.origin) * self.width

    def place(self, offset: int) -> int:
        """The place in the text of an offset in the file (rounded down)."""
        return offset // self.width + self.origin


def units_of(data: bytes) -> Units:
    """`data` with a line feed at the end of every line, and one byte per unit where it is not UTF-8.

    A file without a line feed has its lone carriage returns (old Mac) made into such.
    """
    codec, width, mark = _encoding(data)
    if width == 1:
        text, exact = data, True
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                text, exact = data.translate(_HIGH), False
    else:
        body = data[mark : len(data) - (len(data) - mark) % width]
        found = body.decode(codec, "surrogatepass" if width == 2 else "replace")
        if width == 2:
            found = _ASTRAL.sub("__", found)
        text, exact = _WIDE.sub("_", found).encode(), False
        if len(text) * width != len(body):  # cannot happen with a decoder that replaces unit by unit
            text, width, mark = data.translate(_HIGH), 1, 0
    if b"\r" in text and b"\n" not in text:
        text, exact = text.replace(b"\r", b"\n"), False
    return Units(text, width, -1 if mark and width > 1 else 0, exact, int(codec == "utf-16-le"))


def _encoding(data: bytes) -> tuple[str, int, int]:
    """Codec, bytes of a unit, bytes of the byte-order mark. Without a mark, where the NULs stand decides."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")) and len(data) % 4 == 0:
        return ("utf-32-le" if data[0] else "utf-32-be"), 4, 4
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ("utf-16-le" if data[0] == 0xFF else "utf-16-be"), 2, 2
    sample = data[:_SAMPLE]
    if b"\0" in sample and len(data) % 2 == 0:
        first, second, third, fourth = (sample[n::4].count(0) / max(len(sample) / 4, 1) for n in range(4))
        if len(data) % 4 == 0 and first < 0.05 and third > 0.8 and fourth > 0.98:
            return "utf-32-le", 4, 0
        if len(data) % 4 == 0 and fourth < 0.05 and second > 0.8 and first > 0.98:
            return "utf-32-be", 4, 0
        if first + third < 0.02 and second + fourth > 0.2:
            return "utf-16-le", 2, 0
        if second + fourth < 0.02 and first + third > 0.2:
            return "utf-16-be", 2, 0
    return "", 1, 0


def character_start(data: bytes, units: Units, place: int) -> int:
    """The nearest place at or before `place` at which neither a character nor a line end is cut in two."""
    if units.text[place - 1 : place + 1] == b"\r\n":
        return place - 1
    at = units.offset(place)
    if units.width == 1:
        return place - _bytes_into_character(data, at)
    if units.width == 2:
        high = at + units.high
        return place - (data[high] & 0xFC == 0xDC and data[high - 2] & 0xFC == 0xD8)
    return place


def _bytes_into_character(data: bytes, at: int) -> int:
    """How many bytes of a character of UTF-8 are before `at`, 0 to 3."""
    if at >= len(data) or data[at] & 0xC0 != 0x80:
        return 0
    for back in range(1, min(4, at + 1)):
        first = data[at - back]
        if first & 0xC0 != 0x80:
            size = 1 if first < 0xC2 or first > 0xF4 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
            return back if size > back else 0
    return 0
