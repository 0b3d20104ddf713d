"""The size of an image by its header, and whether all of it is there. Pure functions of bytes, without a library.

By the specifications of PNG (W3C), JPEG (ITU-T T.81), GIF89a and the WebP container (RFC 9649).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from repoagent.llm.media.media import ImageType


class Broken(ValueError):
    """These bytes are no whole file of their type; the message goes after its name: "ends too early"."""


_CUT = "ends too early: it was cut, or is still being written"
_BAD = "is broken: its header says no size"

# Markers of JPEG: frames (their numbers but for three that mean other things), and those that have no length.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
_SCAN, _END, _FILL = 0xDA, 0xD9, 0xFF


def size_of(kind: ImageType, data: bytes) -> tuple[int, int]:
    """Width and height in pixels. Raises Broken for what is no whole image of that type."""
    try:
        width, height = _READERS[kind](data)
    except IndexError as error:
        raise Broken(_CUT) from error
    if not (width and height):
        raise Broken(_BAD)
    return width, height


def _png(data: bytes) -> tuple[int, int]:
    if _taken(data, 12, 4) != b"IHDR":
        raise Broken(_BAD)
    at, name = 8, b""
    while name != b"IEND":
        name = _taken(data, at + 4, 4)
        at += 12 + int.from_bytes(_taken(data, at, 4), "big")
        _taken(data, at - 1, 1)
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _jpeg(data: bytes) -> tuple[int, int]:
    at, size = 2, (0, 0)
    while True:
        if data[at] != _FILL:
            raise Broken(_BAD)
        while data[at] == _FILL:
            at += 1
        marker = data[at]
        at += 1
        if marker == _END:
            raise Broken(_BAD)  # there was no picture before it
        if marker in _BARE:
            continue
        if marker == _SCAN:
            # Within the picture a byte of this value is always followed by a zero, so the end can't be mistaken.
            if data.find(b"\xff\xd9", at) < 0:
                raise Broken(_CUT)
            return size
        if marker in _FRAMES:
            head = _taken(data, at + 3, 4)
            size = int.from_bytes(head[2:], "big"), int.from_bytes(head[:2], "big")
        at += max(2, int.from_bytes(_taken(data, at, 2), "big"))


def _gif(data: bytes) -> tuple[int, int]:
    size = int.from_bytes(_taken(data, 6, 2), "little"), int.from_bytes(_taken(data, 8, 2), "little")
    at, pictures = 13 + _palette(data[10]), 0
    while not (pictures and at == len(data)) and data[at] != 0x3B:  # some writers leave the end mark out
        if data[at] == 0x21:  # an extension: its label, then its blocks
            at = _after_blocks(data, at + 2)
        elif data[at] == 0x2C:
            at = _after_blocks(data, at + 11 + _palette(data[at + 9]))
            pictures += 1
        else:
            raise Broken("is broken: there is something in it that is no part of a GIF")
    if not pictures:
        raise Broken("is broken: there is no picture in it")
    return size


def _palette(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_blocks(data: bytes, at: int) -> int:
    while data[at]:
        at += 1 + data[at]
    return at + 1


def _webp(data: bytes) -> tuple[int, int]:
    _taken(data, 8 + int.from_bytes(_taken(data, 4, 4), "little") - 1, 1)
    form = data[12:16]
    if form == b"VP8 " and _taken(data, 23, 3) == b"\x9d\x01\x2a":
        sides = int.from_bytes(_taken(data, 26, 2), "little"), int.from_bytes(_taken(data, 28, 2), "little")
        return sides[0] & 0x3FFF, sides[1] & 0x3FFF
    if form == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(_taken(data, 21, 4), "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X":
        wide, high = _taken(data, 24, 3), _taken(data, 27, 3)
        return int.from_bytes(wide, "little") + 1, int.from_bytes(high, "little") + 1
    raise Broken(_BAD)


def _taken(data: bytes, at: int, count: int) -> bytes:
    """So many bytes from there on. Raises IndexError where they are not all there."""
    found = data[at : at + count]
    if at < 0 or len(found) < count:
        raise IndexError(at)
    return found


_READERS: Mapping[ImageType, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
