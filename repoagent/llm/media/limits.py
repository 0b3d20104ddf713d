"""What a provider takes of images and PDFs: looked at before anything is sent, so that nobody pays to hear it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import UsageError

if TYPE_CHECKING:
    from repoagent.llm.media.media import Media
    from repoagent.llm.model import Request

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
            f"{spec} takes text only{also}: {_names(request.media)} can't be sent, and nothing was. Use a model that "
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
        raise UsageError(f"{_names(tuple(documents))} can't be sent to {spec}: {limits.no_pdf}")
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
            f"{image.name} has {image.base64_size:,} bytes as it is sent (base64) and {spec} takes "
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
