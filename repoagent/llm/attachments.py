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

_CUT = "ends too early: it was cut, or is still being written"
_BAD = "is broken: its header gives no size"
_TAIL = 2_048  # bytes, which have the end mark of a PDF; after it there may be something of a mail
_LARGEST_COUNTED = 32_000_000  # bytes; pypdf takes up to a fifth of a second to search each million


class BrokenMedia(ValueError):
    """These bytes are not a whole file of their type; the message goes after its name: "ends too early"."""


def size_of(kind: ImageType, data: bytes) -> tuple[int, int]:
    """Width and height in pixels. Raises BrokenMedia for what is not a whole image of that type."""
    width = height = 0
    if kind == "image/png":
        width, height, whole = _big(data, 16, 4), _big(data, 20, 4), b"IEND\xae\x42\x60\x82" in data
    elif kind == "image/gif":
        width, height = (int.from_bytes(data[at : at + 2], "little") for at in (6, 8))
        whole = data.rstrip(b"\0\r\n").endswith(b";")
    elif kind == "image/jpeg":
        width, height, whole = _jpeg(data)
    else:
        width, height = _webp(data)
        whole = len(data) >= 8 + int.from_bytes(data[4:8], "little")
    if not whole:
        raise BrokenMedia(_CUT)
    if not (width and height):
        raise BrokenMedia(_BAD)
    return width, height


def _big(data: bytes, at: int, count: int) -> int:
    return int.from_bytes(data[at : at + count], "big")


def _jpeg(data: bytes) -> tuple[int, int, bool]:
    """The size in the header of the frame, and whether the image has its end mark."""
    at, size = 2, (0, 0)
    while match := re.compile(rb"\xff+([^\xff])").match(data, at):
        marker, at = match[1][0], match.end()
        if marker == 0xDA:
            # Within the image a byte 0xFF is always followed by a zero, so the end can't be mistaken.
            return *size, data.find(b"\xff\xd9", at) >= 0
        if marker in range(0xC0, 0xD0) and marker not in {0xC4, 0xC8, 0xCC}:
            size = _big(data, at + 5, 2), _big(data, at + 3, 2)
        if marker not in {0x01, *range(0xD0, 0xD9)}:  # those have no length
            at += max(2, _big(data, at, 2))
    return 0, 0, at < len(data)


def _webp(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        bits = int.from_bytes(data[26:30], "little")
        return bits & 0x3FFF, bits >> 16 & 0x3FFF
    if form == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return 0, 0


def page_count(data: bytes) -> int:
    """The pages; 0 for a file that is too large to count them.

    Raises BrokenMedia for one that is encrypted, cut, or can't be read.
    """
    if b"%%EOF" not in data[-_TAIL:]:
        raise BrokenMedia(_CUT)
    if len(data) > _LARGEST_COUNTED:
        return 0
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports each oddity on standard error
    try:
        reader = PdfReader(io.BytesIO(data))
        if not reader.is_encrypted:
            return len(reader.pages)
    except (DependencyError, FileNotDecryptedError):
        pass
    except Exception as error:  # a broken file may raise anything
        raise BrokenMedia("is broken: cannot read its pages; open it and save it as PDF again") from error
    raise BrokenMedia("is encrypted: remove the password first (qpdf --decrypt IN.pdf OUT.pdf)")


def media_of(data: bytes, name: str) -> Media | None:
    """The image or PDF that `data` is, by its content alone; None for what may be text.

    Raises UsageError for one that is broken, cut or encrypted, and for images, documents, sound and archives of other
    kinds, with what to convert them to. Nothing is changed or taken out: what a camera wrote into a photo goes along.
    """
    kind = type_of(data)
    if kind is None:
        if what := foreign(data):
            raise UsageError(f"{name} is {what}")
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
    """What a turn records of its attachment: the name of the copy, the start of its hash, its tokens, its path."""

    copy: str
    hash: str
    tokens: int
    path: str


def reference(turn: Turn) -> Reference | None:
    """The attachment of a turn; None where it has none."""
    match = _REFERENCE.fullmatch(turn.meta.get(ATTACHED, ""))
    return Reference(match[1], match[2], int(match[3]), match[4]) if match else None


@dataclass(frozen=True)
class Attachments:
    """The copies in `folder`. `why_not` says why the current model can't be sent these together, "" where it can."""

    folder: Path
    why_not: Callable[[Sequence[Media]], str]
    _read: dict[str, Media | None] = field(default_factory=dict)

    def keep(self, media: Media) -> str:
        """Keep a copy; returns what the turn records of it. Raises Refused where it can't be written."""
        from repoagent.storage.atomic import read_regular, write_whole

        name = f"{media.sha256[:32]}.{media.type.partition('/')[2]}"
        if not self.folder.is_dir() or read_regular(self.folder / name) != media.data:
            write_whole(self.folder / name, media.data)
        return f"{name} {media.tokens} {media.name}"

    def of(self, turns: Sequence[Turn]) -> Mapping[str, Media | str]:
        """What is attached to `turns`, by what they record of it; a sentence in the place of what can't be sent."""
        attached: dict[str, Media | str] = {}
        for turn in turns:
            if item := reference(turn):
                key = turn.meta[ATTACHED]
                gone = f"{item.path} is not attached: the copy that was sent no longer exists. "
                attached[key] = self._copy(key, item) or gone + "Read it again if it matters."
        left = [(key, copy) for key, copy in attached.items() if isinstance(copy, Media)]
        while left and (why := self.why_not([copy for _, copy in left])):
            attached |= {key: f"{copy.name} is not attached: {why}." for key, copy in left[:AT_ONCE]}
            left = left[AT_ONCE:]
        return attached

    def _copy(self, key: str, item: Reference) -> Media | None:
        from repoagent.storage.atomic import read_regular

        if key not in self._read:
            data = read_regular(self.folder / item.copy) or b""
            try:
                same = sha256(data).hexdigest().startswith(item.hash)
                self._read[key] = media_of(data, item.path) if same else None
            except UsageError:
                self._read[key] = None
        return self._read[key]


def in_words(media: Media) -> str:
    """What it is, for a model: "shot.png is a PNG of 800x600, 45 KB"."""
    what = "PDF" + (f" of {media.pages} page{'s' * (media.pages != 1)}" if media.pages else "")
    if media.is_image:
        what = f"{media.type.partition('/')[2].upper()} of {media.width}x{media.height}"
    return f"{media.name} is a {what}, {-(-len(media.data) // 1024):,} KB"
