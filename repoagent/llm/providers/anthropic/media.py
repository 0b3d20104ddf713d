"""Images and PDFs as blocks of the Messages API, and how much of them it takes."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from repoagent.llm.media.limits import MediaLimits
from repoagent.llm.rendering import wire_text

if TYPE_CHECKING:
    from anthropic.types import DocumentBlockParam, ImageBlockParam

    from repoagent.llm.media import Media
    from repoagent.llm.providers.anthropic.client import Platform

_LONG_WINDOW = 1_000_000  # tokens; with such a window more images and pages go into one request
_TITLE = 200  # characters

# As of platform.claude.com in 2026, "Vision", "PDF support" and "API overview", and for the clouds their own lower
# limits on a request. An image of more bytes is refused by its size in base64, which counts in units of 1,024.
_IMAGE_BYTES = {"anthropic": 10 * 1024 * 1024, "bedrock": 5 * 1024 * 1024, "vertex": 5 * 1024 * 1024}
_REQUEST_BYTES = {"anthropic": 32_000_000, "bedrock": 20_000_000, "vertex": 30_000_000}


def media_limits(platform: Platform, context_tokens: int | None) -> MediaLimits:
    """What the models of a platform take at once, by the window of the one that is asked."""
    many = context_tokens is None or context_tokens >= _LONG_WINDOW
    return MediaLimits(
        image_bytes=_IMAGE_BYTES[platform],
        request_bytes=_REQUEST_BYTES[platform],
        images=600 if many else 100,
        side=8000,
        many=20,
        many_side=2000,
        pages=600 if many else 100,
    )


def media_block(media: Media) -> ImageBlockParam | DocumentBlockParam:
    """The block that holds `media`."""
    data = b64encode(media.data).decode("ascii")
    if media.type != "application/pdf":
        return {"type": "image", "source": {"type": "base64", "media_type": media.type, "data": data}}
    block: DocumentBlockParam = {
        "type": "document",
        "source": {"type": "base64", "media_type": media.type, "data": data},
    }
    if media.name:
        block["title"] = wire_text(media.name)[:_TITLE]
    return block
