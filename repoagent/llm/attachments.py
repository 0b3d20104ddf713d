"""From the bytes of a file to an image or PDF, and the copies of these that a conversation refers to.

Image headers by the specifications of PNG (W3C), JPEG (ITU-T T.81), GIF89a and WebP (RFC 9649). A copy is named by its
hash, so that each later request, also of a resumed run, has the same bytes.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError
from repoagent.llm.conversation import ATTACHED, Turn
from repoagent.llm.media import PDF, ImageType, Media, foreign, type_of


class BrokenMedia(ValueError):
    """These bytes are no whole file of their type; the message goes after its name: "ends too early"."""


_CUT = "ends too early: it was cut, or is still being written"
_BAD = "is broken: its header gives no size"

# Markers of JPEG: frames (their numbers but for three that mean other things), and those that have no length.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
_SCAN, _END, _FILL = 0xDA, 0xD9, 0xFF


def size_of(kind: ImageType, data: bytes) -> tuple[int, int]:
    """Width and height in pixels. Raises Broken for what is no whole image of that type."""
    try:
        width, height = _READERS[kind](data)
    except IndexError as error:
        raise BrokenMedia(_CUT) from error
    if not (width and height):
        raise BrokenMedia(_BAD)
    return width, height


def _png(data: bytes) -> tuple[int, int]:
    if _taken(data, 12, 4) != b"IHDR":
        raise BrokenMedia(_BAD)
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
            raise BrokenMedia(_BAD)
        while data[at] == _FILL:
            at += 1
        marker = data[at]
        at += 1
        if marker == _END:
            raise BrokenMedia(_BAD)  # there was no picture before it
        if marker in _BARE:
            continue
        if marker == _SCAN:
            # Within the picture a byte of this value is always followed by a zero, so the end can't be mistaken.
            if data.find(b"\xff\xd9", at) < 0:
                raise BrokenMedia(_CUT)
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
            raise BrokenMedia("is broken: it contains something that is not part of a GIF")
    if not pictures:
        raise BrokenMedia("is broken: it contains no image")
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
    raise BrokenMedia(_BAD)


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

_TAIL = 2_048  # bytes: the mark of the end stands in them; after it there may be something of a mail
_MOST = 32_000_000  # bytes; pypdf takes up to a fifth of a second to search each million


def page_count(data: bytes) -> int:
    """The pages; 0 for a file that is too large to count them.

    Raises Broken for one that is encrypted, cut, or can't be read.
    """
    if b"%%EOF" not in data[-_TAIL:]:
        raise BrokenMedia("ends too early: it was cut, or is still being written")
    if len(data) > _MOST:
        return 0
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of each oddity on standard error
    try:
        reader = PdfReader(io.BytesIO(data))
        if not reader.is_encrypted:
            return len(reader.pages)
    except (DependencyError, FileNotDecryptedError):
        pass
    except Exception as error:  # what a broken file leads to is of any kind
        raise BrokenMedia("is broken: cannot read its pages; open it and save it as PDF again") from error
    raise BrokenMedia("is encrypted: remove the password first (qpdf --decrypt IN.pdf OUT.pdf)")


def media_of(data: bytes, name: str) -> Media | None:
    """The image or PDF that `data` is, by its content alone; None for what may be text.

    Raises UsageError for one that is broken, cut or encrypted, and for images, documents, sound and archives of other
    kinds, with what to convert them to. Nothing is changed or taken out: what a camera wrote into a photo goes along.
    """
    kind = type_of(data)
    if kind is None:
        if known := foreign(data):
            what, advice = known
            raise UsageError(f"{name} is {what}, which cannot be sent: {advice}")
        return None
    try:
        if kind == PDF:
            return Media(kind, data, name, pages=page_count(data))
        width, height = size_of(kind, data)
    except BrokenMedia as error:
        raise UsageError(f"{name} {error}") from error
    return Media(kind, data, name, width, height)


AT_ONCE = 8  # are left out together where all are too much: each request then begins as the one before
_REFERENCE = re.compile(r"(([0-9a-f]{32})\.[a-z]{3,4}) (\d{1,9}) (.+)", re.DOTALL)


class Reference(NamedTuple):
    """What a turn says of its attachment: the name of the copy, the start of its hash, its tokens, its path."""

    copy: str
    hash: str
    tokens: int
    path: str


def reference(turn: Turn) -> Reference | None:
    """The attachment of a turn; None where it has none."""
    found = _REFERENCE.fullmatch(turn.meta.get(ATTACHED, ""))
    return Reference(found[1], found[2], int(found[3]), found[4]) if found else None


@dataclass(frozen=True)
class Attachments:
    """The copies in `folder`. `why_not` says why the model that is asked now can't be sent these together, "" where it
    can."""

    folder: Path
    why_not: Callable[[Sequence[Media]], str]
    _read: dict[str, Media | None] = field(default_factory=dict)

    def keep(self, media: Media) -> str:
        """Keep a copy; what the turn says of it. Raises Refused where it can't be written."""
        from repoagent.storage.atomic import read_regular, write_whole

        name = f"{media.sha256[:32]}.{media.type.partition('/')[2]}"
        if not self.folder.is_dir() or read_regular(self.folder / name) != media.data:
            write_whole(self.folder / name, media.data)
        return f"{name} {media.tokens} {media.name}"

    def of(self, turns: Sequence[Turn]) -> Mapping[str, Media | str]:
        """What is attached to `turns`, by what they say of it; a sentence in the place of what can't be sent."""
        found: dict[str, Media | str] = {}
        for turn in turns:
            if (said := reference(turn)) is None:
                continue
            copy = self._copy(turn.meta[ATTACHED], said)
            gone = f"{said.path} is not attached: the copy that was sent no longer exists. Read it again if it matters."
            found[turn.meta[ATTACHED]] = copy or gone
        kept = [(key, copy) for key, copy in found.items() if isinstance(copy, Media)]
        while kept and (why := self.why_not([copy for _, copy in kept])):
            found |= {key: f"{copy.name} is not attached: {why}." for key, copy in kept[:AT_ONCE]}
            kept = kept[AT_ONCE:]
        return found

    def _copy(self, key: str, said: Reference) -> Media | None:
        from repoagent.storage.atomic import read_regular

        if key not in self._read:
            data = read_regular(self.folder / said.copy) or b""
            try:
                same = sha256(data).hexdigest().startswith(said.hash)
                self._read[key] = media_of(data, said.path) if same else None
            except UsageError:
                self._read[key] = None
        return self._read[key]


def in_words(media: Media) -> str:
    """What it is, for a model: "shot.png is a PNG of 800x600, 45 KB"."""
    size = -(-len(media.data) // 1024)
    if media.is_image:
        what = f"{media.type.partition('/')[2].upper()} of {media.width}x{media.height}"
    else:
        what = "PDF" + (f" of {media.pages} page{'s' * (media.pages != 1)}" if media.pages else "")
    return f"{media.name} is a {what}, {size:,} KB"
