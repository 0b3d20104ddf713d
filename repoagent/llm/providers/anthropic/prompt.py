"""A request as the blocks of the Messages API: text, cache breakpoints, images and PDFs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.llm.model import Part, Request
from repoagent.llm.providers.anthropic.media import media_block
from repoagent.llm.rendering import wire_text

if TYPE_CHECKING:
    from anthropic.types import (
        CacheControlEphemeralParam,
        DocumentBlockParam,
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
    )

    Block = TextBlockParam | ImageBlockParam | DocumentBlockParam

BREAKPOINTS = 4  # of the prompt cache, in one request


def prompt_of(request: Request, cache: str) -> tuple[list[TextBlockParam], list[MessageParam]]:
    """System and messages, with the last four of the cache breakpoints asked for: the longest prefix is worth
    most."""
    system = _blocks(request.system, cache)
    said = [(message.role, _content(message.parts, cache)) for message in request.messages]
    blocks: list[Block] = [*system, *(block for _, of_message in said for block in of_message)]
    for block in [block for block in blocks if "cache_control" in block][:-BREAKPOINTS]:
        del block["cache_control"]
    messages: list[MessageParam] = [
        {"role": "user", "content": content} if role == "user" else {"role": "assistant", "content": content}
        for role, content in said
    ]
    return system, messages


def _content(parts: tuple[Part, ...], cache: str) -> list[Block]:
    """The blocks of a message: text, and after the text of its part what is attached to it."""
    content: list[Block] = []
    texts: list[Part] = []
    for part in parts:
        if part.media is None:
            texts.append(part)
            continue
        content += _blocks((*texts, Part(part.text)), cache)
        block = media_block(part.media)
        if part.cache and cache != "off":
            block["cache_control"] = _kept(cache)
        content.append(block)
        texts = []
    return [*content, *_blocks(tuple(texts), cache)]


def _kept(cache: str) -> CacheControlEphemeralParam:
    return {"type": "ephemeral", "ttl": "1h"} if cache == "1h" else {"type": "ephemeral"}


def _blocks(parts: tuple[Part, ...], cache: str) -> list[TextBlockParam]:
    """Text blocks; the API rejects blank ones, so those join their neighbour."""
    blocks: list[TextBlockParam] = []
    blank = ""
    for part in parts:
        text = blank + wire_text(part.text)
        blank = ""
        if text.strip():
            blocks.append({"type": "text", "text": text})
        elif blocks:
            blocks[-1]["text"] += text
        else:
            blank = text
        if blocks and part.cache and cache != "off":
            blocks[-1]["cache_control"] = _kept(cache)
    return blocks
