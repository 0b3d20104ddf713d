"""An image or PDF for a model: its type, size and tokens, and what a provider takes, checked before sending."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, get_args

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.llm.model import Request

ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
MediaType = ImageType | Literal["application/pdf"]
PDF: Literal["application/pdf"] = "application/pdf"

# A token for each patch of so many pixels a side; what is larger is made smaller first, and then has at most so many.
# As of platform.claude.com, "Vision", 2026, for Claude Opus 4.7 and later; earlier models have a third of it at most.
_PATCH, _LONGEST, _MOST = 28, 2576, 4784
# Of one page, as text and as an image: the upper end of what platform.claude.com, "PDF support", names for the text.
_PAGE = 3_000
_PAGE_BYTES = 50_000  # of a page, where the pages could not be counted; rather too few than too many


@dataclass(frozen=True)
class Media:
    """The bytes of a file and their type. `name` is for the user and the model. `width` and `height` are pixels of an
    image; `pages` those of a PDF, 0 where it is too large to count them."""

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
        """The hash of the bytes, in hexadecimal."""
        return sha256(self.data).hexdigest()

    @property
    def tokens(self) -> int:
        """About how many tokens it is, rather too many than too few; for limits, not for bills."""
        if not self.is_image:
            return _PAGE * (self.pages or -(-len(self.data) // _PAGE_BYTES))
        scale = min(1.0, _LONGEST / max(self.width, self.height, 1))
        across, down = (max(1, round(side * scale)) for side in (self.width, self.height))
        return min(_MOST, -(-across // _PATCH) * -(-down // _PATCH))

    @property
    def base64_size(self) -> int:
        """How many bytes it has as it is sent."""
        return 4 * -(-len(self.data) // 3)

    def described(self) -> str:
        """What it is, in a few words: "image/png, 800 x 600 pixels, 12,345 bytes"."""
        if self.is_image:
            size = f", {self.width} x {self.height} pixels"
        else:
            size = f", {self.pages} page{'s' * (self.pages != 1)}" if self.pages else ""
        return f"{self.type}{size}, {len(self.data):,} bytes"

    def in_words(self) -> str:
        """A line for it where there is only text: in saved prompts, and in a cassette."""
        return f"[{self.described()}, sha256 {self.sha256}]\n"


# By the first bytes of a file.
_TYPES: tuple[tuple[re.Pattern[bytes], MediaType], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"(?s)RIFF....WEBP"), "image/webp"),
    (re.compile(rb"(\xef\xbb\xbf)?[ \t\r\n\0]{0,12}%PDF-"), PDF),
)
_CONVERT = "convert it to PNG or JPEG first"
_ONLY = "only text, images and PDFs can be sent"
_FOREIGN = (
    (re.compile(rb"(?s)....ftyp(he|mif1|msf1)"), "a HEIC image", _CONVERT),
    (re.compile(rb"(?s)....ftypavi"), "an AVIF image", _CONVERT),
    (re.compile(rb"(?s)....ftyp"), "a video", _ONLY),
    (re.compile(rb"II\*\0|MM\0\*"), "a TIFF image", _CONVERT),
    (re.compile(rb"(?s)BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0"), "a BMP image", _CONVERT),
    (
        re.compile(rb"PK\x03\x04(?s:.{0,4000})(\[Content_Types\]\.xml|opendocument)"),
        "an Office document",
        "save it as PDF or as text first",
    ),
    (re.compile(rb"PK\x03\x04"), "an archive (ZIP)", "unpack it and name the files in it"),
    (re.compile(rb"\x1f\x8b"), "compressed (gzip)", "unpack it and name the files in it"),
    (re.compile(rb"(?s)RIFF....(WAVE|AVI )"), "sound or a video", _ONLY),
)


def type_of(data: bytes) -> MediaType | None:
    """The type of an image or PDF that can be sent; None for anything else."""
    return next((kind for pattern, kind in _TYPES if pattern.match(data)), None)


def foreign(data: bytes) -> str:
    """For the bytes of a known kind that no model is sent: what that is, and what to do; else ""."""
    matches = (row for row in _FOREIGN if row[0].match(data))
    return next((f"{what}, which cannot be sent: {advice}" for _, what, advice in matches), "")


@dataclass(frozen=True)
class MediaLimits:
    """None is no limit that is known. `image_bytes` and `request_bytes` count what is sent, base64; `side` is in
    pixels, `many_side` instead where there are more than `many` images; `pages` are those of all PDFs together.
    `not_taken` are types of images. `no_pdf` is why PDFs are not, "" where they are."""

    image_bytes: int | None = None
    request_bytes: int | None = None
    images: int | None = None
    side: int | None = None
    many: int | None = None
    many_side: int | None = None
    pages: int | None = None
    not_taken: frozenset[str] = frozenset()
    no_pdf: str = ""


def refuse_any(request: Request, spec: str, why: str = "") -> None:
    """Raise UsageError where something is attached for the model `spec`, which takes text only."""
    if request.media:
        also = f" ({why})" if why else ""
        raise UsageError(
            f"{spec} takes text only{also}: cannot send {_names(request.media)}. Use a model that "
            "takes it, such as --model anthropic/NAME"
        )


def refuse_over(request: Request, limits: MediaLimits, spec: str) -> None:
    """Raise UsageError for the first attachment that `spec` does not take, by its type or its size."""
    if not request.media:
        return
    images = [item for item in request.media if item.is_image]
    documents = [item for item in request.media if not item.is_image]
    many = limits.many is not None and len(images) > limits.many
    side = limits.many_side if many else limits.side
    for image in images:
        if image.type in limits.not_taken:
            form = image.type.removeprefix("image/").upper()
            raise UsageError(
                f"{image.name} is {form}, which {spec} does not take: convert it to PNG or JPEG first"
            )
        if limits.image_bytes is not None and image.base64_size > limits.image_bytes:
            raise UsageError(
                f"{image.name} has {image.base64_size:,} bytes when sent (base64) and {spec} takes "
                f"{limits.image_bytes:,}: make it smaller, or save it as JPEG"
            )
        if side is not None and max(image.width, image.height) > side:
            also = f" where there are more than {limits.many} images" if many else ""
            raise UsageError(
                f"{image.name} is {image.width} x {image.height} pixels and {spec} takes {side} a side at most{also}: "
                "make it smaller first"
            )
    if documents and limits.no_pdf:
        raise UsageError(f"cannot send {_names(documents)} to {spec}: {limits.no_pdf}")
    if limits.images is not None and len(images) > limits.images:
        raise UsageError(
            f"{spec} takes {limits.images} images at once, and these are {len(images)}: send fewer"
        )
    pages = sum(document.pages for document in documents)
    if limits.pages is not None and pages > limits.pages:
        raise UsageError(
            f"{spec} takes {limits.pages} pages at once, and {_names(documents)} has {pages}: split it "
            "(qpdf IN.pdf --pages . 1-50 -- OUT.pdf)"
        )
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    text_bytes = sum(len(part.text.encode("utf-8", "surrogatepass")) for part in parts)
    size = sum(item.base64_size for item in request.media) + text_bytes
    if limits.request_bytes is not None and size > limits.request_bytes:
        raise UsageError(
            f"the request would have {size:,} bytes and {spec} takes {limits.request_bytes:,}: send fewer files, or "
            "smaller ones"
        )


def _names(media: Sequence[Media]) -> str:
    first = ", ".join(item.name or "an attachment" for item in media[:3])
    return f"{first} and {len(media) - 3} more" if len(media) > 3 else first
