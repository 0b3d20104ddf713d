"""An image or PDF for a model: its type, size and tokens, and what a provider takes, checked before sending."""

from __future__ import annotations

from dataclasses import field
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, get_args

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.llm.model import Request

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"]
ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
PDF: Literal["application/pdf"] = "application/pdf"

# A token for each patch of so many pixels a side; what is larger is made smaller first, and then has at most so many.
# As of platform.claude.com, "Vision", 2026, for Claude Opus 4.7 and later; earlier models have a third of it at most.
_PATCH, _LONGEST, _MOST = 28, 2576, 4784
# Of one page, as text and as an image: the upper end of what platform.claude.com, "PDF support", names for the text.
_PAGE = 3_000
_PAGE_BYTES = 50_000  # of a page, where the pages could not be counted; rather too few than too many


@dataclass(frozen=True)
class Media:
    """The bytes of a file and their type. `name` is for people and the model. `width` and `height` are pixels of an
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
        """A line that stands for it where there is only text: in what is kept of a prompt, and in a cassette."""
        return f"[{self.described()}, sha256 {self.sha256}]\n"


IMAGE = "convert it to PNG or JPEG first"
_OFFICE = "save it as PDF or as text first"
_SOUND = "only text, images and PDFs can be sent"
_ARCHIVE = "unpack it and name the files in it"

_OURS: tuple[tuple[bytes, MediaType], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"II*\0", "a TIFF image", IMAGE),
    (b"MM\0*", "a TIFF image", IMAGE),
    (b"\0\0\1\0", "an icon (ICO)", IMAGE),
    (b"8BPS", "a Photoshop image", IMAGE),
    (b"\xff\x0a", "a JPEG XL image", IMAGE),
    (b"\0\0\0\x0cJXL ", "a JPEG XL image", IMAGE),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image", IMAGE),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document", _OFFICE),
    (b"\x1f\x8b", "compressed (gzip)", _ARCHIVE),
    (b"BZh", "compressed (bzip2)", _ARCHIVE),
    (b"\xfd7zXZ\0", "compressed (xz)", _ARCHIVE),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd)", _ARCHIVE),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)", _ARCHIVE),
    (b"\x1a\x45\xdf\xa3", "a video", _SOUND),
    (b"OggS", "sound or video", _SOUND),
    (b"fLaC", "sound", _SOUND),
    (b"ID3", "sound", _SOUND),
)
_HEIC = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_AVIF = (b"avif", b"avis")
_BMP_HEADERS = (
    12,
    40,
    52,
    56,
    64,
    108,
    124,
)  # bytes of the second header, which tells BMP from a text with "BM"
_TEXT_LIKE = (b"BZh", b"ID3", b"OggS", b"fLaC", b"8BPS")  # letters, with which a text may begin too


def type_of(data: bytes) -> MediaType | None:
    """The type of an image or PDF that can be sent; None for anything else."""
    for magic, kind in _OURS:
        if data.startswith(magic):
            return kind
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return PDF if data[:16].lstrip(b"\xef\xbb\xbf \t\r\n\0").startswith(b"%PDF-") else None


def foreign(data: bytes) -> tuple[str, str] | None:
    """For the bytes of a known kind that no model is sent: what that is ("a TIFF image"), and what to do; else None."""
    for magic, what, advice in _FOREIGN:
        if data.startswith(magic) and (magic not in _TEXT_LIKE or _has_controls(data)):
            return what, advice
    if data[4:8] == b"ftyp":
        return _boxed(data[8:12])
    if data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "a BMP image", IMAGE
    if data.startswith(b"PK\x03\x04"):
        office = any(
            part in data[:4096] for part in (b"[Content_Types].xml", b"word/", b"xl/", b"opendocument")
        )
        return ("an Office document", _OFFICE) if office else ("an archive (ZIP)", _ARCHIVE)
    if data[:4] == b"RIFF" and data[8:12] in (b"WAVE", b"AVI "):
        return ("sound" if data[8:12] == b"WAVE" else "a video"), _SOUND
    return None


def _boxed(brand: bytes) -> tuple[str, str]:
    if brand in _HEIC:
        return "a HEIC image", IMAGE
    return ("an AVIF image", IMAGE) if brand in _AVIF else ("a video", _SOUND)


def _has_controls(data: bytes) -> bool:
    return any(byte < 9 for byte in data[:512])


_SMALLER = "make it smaller, or save it as JPEG"


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
    """Raise UsageError for the first thing attached that `spec` does not take, by its type or its size."""
    media = request.media
    if not media:
        return
    images = [one for one in media if one.is_image]
    side = limits.many_side if limits.many is not None and len(images) > limits.many else limits.side
    for image in images:
        _refuse_image(image, limits, side, spec)
    documents = [one for one in media if not one.is_image]
    if documents and limits.no_pdf:
        raise UsageError(f"cannot send {_names(tuple(documents))} to {spec}: {limits.no_pdf}")
    if limits.images is not None and len(images) > limits.images:
        raise UsageError(
            f"{spec} takes {limits.images} images at once, and these are {len(images)}: send fewer"
        )
    pages = sum(document.pages for document in documents)
    if limits.pages is not None and pages > limits.pages:
        raise UsageError(
            f"{spec} takes {limits.pages} pages at once, and {_names(tuple(documents))} has {pages}: split it "
            "(qpdf IN.pdf --pages . 1-50 -- OUT.pdf)"
        )
    size = sum(one.base64_size for one in media) + _text_bytes(request)
    if limits.request_bytes is not None and size > limits.request_bytes:
        raise UsageError(
            f"the request would have {size:,} bytes and {spec} takes {limits.request_bytes:,}: send fewer files, or "
            "smaller ones"
        )


def _refuse_image(image: Media, limits: MediaLimits, side: int | None, spec: str) -> None:
    if image.type in limits.not_taken:
        form = image.type.removeprefix("image/").upper()
        raise UsageError(
            f"{image.name} is {form}, which {spec} does not take: convert it to PNG or JPEG first"
        )
    if limits.image_bytes is not None and image.base64_size > limits.image_bytes:
        raise UsageError(
            f"{image.name} has {image.base64_size:,} bytes when sent (base64) and {spec} takes "
            f"{limits.image_bytes:,}: {_SMALLER}"
        )
    if side is not None and max(image.width, image.height) > side:
        many = f" where there are more than {limits.many} images" if side != limits.side else ""
        raise UsageError(
            f"{image.name} is {image.width} x {image.height} pixels and {spec} takes {side} a side at most{many}: make "
            "it smaller first"
        )


def _names(media: tuple[Media, ...]) -> str:
    first = ", ".join(one.name or "an attachment" for one in media[:3])
    return f"{first} and {len(media) - 3} more" if len(media) > 3 else first


def _text_bytes(request: Request) -> int:
    parts = [*request.system, *(part for message in request.messages for part in message.parts)]
    return sum(len(part.text.encode("utf-8", "surrogatepass")) for part in parts)
