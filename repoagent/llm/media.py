"""Images and PDFs for a model: their type, size and tokens, the limits of providers, and the copies for conversations.

A copy is named after its hash, so that each later request has the same bytes, even in a resumed run.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from repoagent.dataclass import dataclass
from repoagent.display_text import list_some, plural
from repoagent.errors import UsageError
from repoagent.llm.conversation import ATTACHED, Turn

if TYPE_CHECKING:
    from repoagent.llm.model import Request

ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
MediaType = ImageType | Literal["application/pdf"]
PDF: Literal["application/pdf"] = "application/pdf"

# One token per patch of _PATCH x _PATCH pixels; an image with a side over _LONGEST is scaled down first, to at most
# _MOST tokens. From platform.claude.com, "Vision", 2026, for Claude Opus 4.7 and later; earlier models use at most a
# third.
_PATCH, _LONGEST, _MOST = 28, 2576, 4784
_PAGE = 3_000  # tokens of a page: the upper end of the range in platform.claude.com, "PDF support"
_PAGE_BYTES = 50_000  # of a page, if the pages could not be counted; a low estimate
# In base64: the limit on an image of Anthropic's API, and the part of its limit on a request that text leaves.
IMAGE_BYTES, ATTACHED_BYTES = 10 * 1024 * 1024, 24_000_000
LONGEST_SIDE = 8000  # pixels


@dataclass(frozen=True)
class Media:
    """The content and type of an image or a PDF.

    name: the name for the user and the model.
    width, height: the size of an image in pixels; 0 if unknown.
    pages: the number of pages of a PDF; 0 if they were not counted because it is too large.
    """

    type: MediaType
    data: bytes = field(repr=False)
    name: str = ""
    width: int = 0
    height: int = 0
    pages: int = 0

    @property
    def is_image(self) -> bool:
        return self.type in get_args(ImageType)

    @property
    def sha256(self) -> str:
        return sha256(self.data).hexdigest()

    @property
    def tokens(self) -> int:
        """The estimated number of tokens, on the high side; the maximum for an image of unknown size."""
        if not self.is_image:
            return _PAGE * (self.pages or -(-len(self.data) // _PAGE_BYTES))
        if not self.width:
            return _MOST
        scale = min(1.0, _LONGEST / max(self.width, self.height))
        across, down = (max(1, round(side * scale)) for side in (self.width, self.height))
        return min(_MOST, -(-across // _PATCH) * -(-down // _PATCH))

    @property
    def base64_size(self) -> int:
        """The number of bytes to send, in base64."""
        return 4 * -(-len(self.data) // 3)

    def described(self) -> str:
        """A short description: "image/png, 800 x 600 pixels, 12,345 bytes"."""
        size = f", {self.width} x {self.height} pixels" if self.width else ""
        size = f", {plural(self.pages, 'page')}" if self.pages else size
        return f"{self.type}{size}, {len(self.data):,} bytes"

    def in_words(self) -> str:
        """The line that replaces the image or PDF in saved prompts and cassettes."""
        return f"[{self.described()}, sha256 {self.sha256}]\n"


# By the first bytes of a file.
_TYPES: tuple[tuple[re.Pattern[bytes], MediaType], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"(?s)RIFF....WEBP"), "image/webp"),
    (re.compile(rb"(\xef\xbb\xbf)?[ \t\r\n\0]{0,12}%PDF-"), PDF),
)


def type_of(data: bytes) -> MediaType | None:
    """The type of an image or PDF that can be sent; None for anything else."""
    return next((kind for pattern, kind in _TYPES if pattern.match(data)), None)


def refuse_any(request: Request, spec: str, why: str = "") -> None:
    """Raise UsageError if anything is attached, because the model `spec` accepts only text."""
    if request.media:
        also = f" ({why})" if why else ""
        raise UsageError(
            f"{spec} accepts only text{also}: cannot send {_names(request.media)}. Use a model that accepts "
            "attachments, for example --model anthropic/NAME"
        )


def refuse_over(request: Request, spec: str, *, no_pdf: str = "", image_bytes: int = IMAGE_BYTES) -> None:
    """Raise UsageError for attachments that are too large, and for PDFs if `no_pdf` says why `spec` rejects them."""
    documents = [item for item in request.media if not item.is_image]
    if documents and no_pdf:
        raise UsageError(f"cannot send {_names(documents)} to {spec}: {no_pdf}")
    for item in request.media:
        if item.is_image and item.base64_size > image_bytes:
            raise UsageError(
                f"{item.name} is {item.base64_size:,} bytes when sent (base64), but {spec} accepts at most "
                f"{image_bytes:,}: make it smaller, or save it as JPEG"
            )
        if max(item.width, item.height) > LONGEST_SIDE:
            raise UsageError(
                f"{item.name} is {item.width} x {item.height} pixels, but {spec} accepts at most {LONGEST_SIDE} "
                "per side: make it smaller first"
            )
    if (size := sum(item.base64_size for item in request.media)) > ATTACHED_BYTES:
        raise UsageError(
            f"the attachments are {size:,} bytes when sent (base64), but one request may have {ATTACHED_BYTES:,}: "
            "send fewer files, or smaller ones"
        )


def _names(media: Sequence[Media]) -> str:
    return list_some([item.name or "an attachment" for item in media], 3)


_TAIL = 2_048  # bytes, searched for the end mark of a PDF; parts of an email may follow it
_LARGEST_COUNTED = 32_000_000  # bytes; pypdf takes up to 0.2 s per million


def page_count(data: bytes) -> int | None:
    """Count the pages of a PDF; return 0 if it is too large to count them, and None if it is encrypted, truncated or
    broken."""
    if b"%%EOF" not in data[-_TAIL:]:
        return None
    if len(data) > _LARGEST_COUNTED:
        return 0
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns about minor defects on standard error
    try:
        reader = PdfReader(io.BytesIO(data))
        return None if reader.is_encrypted else len(reader.pages)
    except Exception:  # noqa: BLE001  # a broken file may raise anything
        return None


def media_of(data: bytes, name: str) -> Media | None:
    """The image or PDF in `data`, recognized by its content alone; None for anything else.

    Raises UsageError for a broken or truncated PNG or PDF and for an encrypted PDF. Other images are left for the
    server to check.
    """
    kind, width, height = type_of(data), 0, 0
    if kind == PDF:
        if (pages := page_count(data)) is None:
            raise UsageError(
                f"cannot read the pages of {name}: it is truncated, broken or encrypted; open it and save it as a PDF "
                "again, without a password"
            )
        return Media(kind, data, name, pages=pages)
    if kind == "image/png":
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        if not (width and height) or b"IEND\xae\x42\x60\x82" not in data:
            raise UsageError(f"{name} is truncated or broken: save it as a PNG again")
    return None if kind is None else Media(kind, data, name, width, height)


AT_ONCE = 8  # attachments omitted together if a limit is exceeded, so that requests keep a common prefix
_REFERENCE = re.compile(r"(([0-9a-f]{32})\.[a-z]{3,4}) (\d{1,9}) (.+)", re.DOTALL)


class Reference(NamedTuple):
    """The attachment recorded in a turn.

    `copy` is the name of the copy, `hash` the start of its hash, and `path` the name of the original file.
    """

    copy: str
    hash: str
    tokens: int
    path: str


def reference_of(turn: Turn) -> Reference | None:
    """The attachment of a turn; None if it has none."""
    match = _REFERENCE.fullmatch(turn.meta.get(ATTACHED, ""))
    return Reference(match[1], match[2], int(match[3]), match[4]) if match else None


@dataclass(frozen=True)
class Attachments:
    """The copies of attachments in `folder`.

    `why_not` returns the reason why the model cannot accept several files in one request, "" if it can.
    """

    folder: Path
    why_not: Callable[[Sequence[Media]], str]
    _read: dict[str, Media | None] = field(default_factory=dict)

    def keep(self, media: Media) -> str:
        """Store a copy; return the reference for the turn. Raises Refused if it cannot be written."""
        from repoagent.storage.atomic import read_regular, write_whole

        name = f"{media.sha256[:32]}.{media.type.partition('/')[2]}"
        if not self.folder.is_dir() or read_regular(self.folder / name) != media.data:
            write_whole(self.folder / name, media.data)
        return f"{name} {media.tokens} {media.name}"

    def of(self, turns: Sequence[Turn]) -> Mapping[str, Media | str]:
        """The attachments of `turns` by reference; for one that cannot be sent, a sentence that says why."""
        attached: dict[str, Media | str] = {}
        for turn in turns:
            if item := reference_of(turn):
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
