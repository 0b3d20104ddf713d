"""From the bytes of a named file to what can be sent of it: an image, a PDF, or nothing but text."""

from __future__ import annotations

from repoagent.errors import UsageError
from repoagent.llm.media.images import Broken, size_of
from repoagent.llm.media.kinds import foreign, type_of
from repoagent.llm.media.media import PDF, Media
from repoagent.llm.media.pdf import page_count


def media_of(data: bytes, name: str) -> Media | None:
    """The image or PDF that `data` is, by its content alone; None for what may be text.

    Raises UsageError for one that is broken, cut or encrypted, and for images, documents, sound and archives of other
    kinds, with what to convert them to. Nothing is changed or taken out: what a camera wrote into a photo goes along.
    """
    kind = type_of(data)
    if kind is None:
        if known := foreign(data):
            what, advice = known
            raise UsageError(f"{name} is {what}, which can't be sent: {advice}")
        return None
    try:
        if kind == PDF:
            return Media(kind, data, name, pages=page_count(data))
        width, height = size_of(kind, data)
    except Broken as error:
        raise UsageError(f"{name} {error}") from error
    return Media(kind, data, name, width, height)
