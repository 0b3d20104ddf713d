"""A file as text of one byte per character, so that an offset in the text is one in the file."""

from __future__ import annotations

_HIGH = bytes(range(128)) + b"_" * 128  # a letter, so that a name stays a name


def parsable(data: bytes) -> bytes:
    """`data` with a line feed at the end of every line, and a letter for each byte beyond ASCII where it is not UTF-8.

    A file without a line feed has its lone carriage returns (old Mac) made into such.
    """
    text = data
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            text = data.translate(_HIGH)
    return text.replace(b"\r", b"\n") if b"\r" in text and b"\n" not in text else text


def character_start(data: bytes, place: int) -> int:
    """The nearest place at or before `place` at which neither a character nor a line end is cut in two."""
    if data[place - 1 : place + 1] == b"\r\n":
        return place - 1
    return place - _bytes_into_character(data, place)


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
