"""Images and PDFs as parts of a message of Chat Completions, and what of them a server takes."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from repoagent.llm.media.limits import MediaLimits
from repoagent.llm.providers.endpoint import Endpoint
from repoagent.llm.rendering import wire_text

if TYPE_CHECKING:
    from repoagent.llm.media import Media

_NO_PDF = (
    "its server takes no PDFs by this protocol. Send its text (pdftotext IN.pdf OUT.txt) or its pages as images "
    "(pdftoppm -png IN.pdf page)"
)
# By the trait that says so: xAI takes JPEG and PNG alone, Google no GIF (both by their documentation of 2026).
_WITHOUT = {"no_gif": "image/gif", "no_webp": "image/webp"}
# All of a request together. OpenAI's pages write of more; more was seen to be refused in September 2026.
_REQUEST_BYTES = {"openai": 50_000_000}


def media_limits(endpoint: Endpoint) -> MediaLimits:
    """What is known of the server. Most say nothing of sizes, and refuse in their own words."""
    return MediaLimits(
        request_bytes=_REQUEST_BYTES.get(endpoint.name),
        not_taken=frozenset(kind for trait, kind in _WITHOUT.items() if trait in endpoint.traits),
        no_pdf="" if "pdf" in endpoint.traits else _NO_PDF,
    )


def media_part(media: Media) -> dict[str, Any]:
    """The part of a message that holds `media`."""
    address = f"data:{media.type};base64,{b64encode(media.data).decode('ascii')}"
    if media.is_image:
        return {"type": "image_url", "image_url": {"url": address}}
    name = wire_text(media.name) or "document.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": address}}
