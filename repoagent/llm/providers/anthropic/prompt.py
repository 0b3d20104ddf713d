"""A request as the blocks of the Messages API: text, cache breakpoints, images and PDFs; thinking and calls of tools
that are sent back."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from repoagent.dataclass import dataclass
from repoagent.llm.conversation import bare
from repoagent.llm.model import Blocks, Message, Part, Request
from repoagent.llm.providers.anthropic.media import media_block
from repoagent.llm.rendering import wire_text

if TYPE_CHECKING:
    from anthropic.types import (
        CacheControlEphemeralParam,
        DocumentBlockParam,
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
        ToolParam,
        ToolResultBlockParam,
    )

    Block = TextBlockParam | ImageBlockParam | DocumentBlockParam | ToolResultBlockParam

BREAKPOINTS = 4  # of the prompt cache, in one request


@dataclass(frozen=True)
class Prompt:
    """What is sent. `prefix` is a hash of all of it but the cache breakpoints; `sent_back` has the prefixes of the
    replies whose thinking is in it."""

    system: list[TextBlockParam]
    tools: list[ToolParam]
    messages: list[MessageParam]
    prefix: str
    sent_back: frozenset[str]


def prompt_of(request: Request, cache: str, spec: str = "", refused: Collection[str] = ()) -> Prompt:
    """The request for the model `spec`, with the last four of the cache breakpoints asked for: the longest prefix is
    worth most.

    A reply is sent as its blocks where they still hold. A signature is bound to the model and to everything before it,
    so a turn that was edited or left out makes text of all that was thought after it; so does a prefix in `refused`.
    """
    system = _blocks(request.system, cache)
    tools: list[ToolParam] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in request.tools
    ]
    known = sha256(json.dumps([_unmarked(system), tools]).encode())
    messages: list[MessageParam] = []
    every: list[Any] = [*system]
    sent_back: set[str] = set()
    live: frozenset[str] = frozenset()  # ids of calls that the next message answers
    for message, after in zip(request.messages, (*request.messages[1:], None), strict=True):
        blocks = message.blocks
        if (
            blocks is not None
            and blocks.spec == spec
            and blocks.prefix in {"", known.hexdigest()} - set(refused)
            and _answered(blocks, after, bool(tools))
        ):
            live = frozenset(call for call, _ in blocks.calls)
            content = [cast("Block", {**item}) for item in blocks.items]
            sent_back.update({blocks.prefix} - {""})
        else:
            content = _content(message.parts, cache, live)
            live = frozenset()
        every += content
        known.update(json.dumps([message.role, _unmarked(content)]).encode())
        messages.append(
            {"role": "user", "content": content}
            if message.role == "user"
            else {"role": "assistant", "content": content}
        )
    for block in [block for block in every if "cache_control" in block][:-BREAKPOINTS]:
        del block["cache_control"]
    return Prompt(system, tools, messages, known.hexdigest(), frozenset(sent_back))


def _answered(blocks: Blocks, after: Message | None, has_tools: bool) -> bool:
    """Whether each call has its result in the next message; the API takes no call without."""
    calls = [call for call, _ in blocks.calls]
    answers = [part.answers for part in after.parts if part.answers] if after else []
    return not calls or (has_tools and sorted(calls) == sorted(answers))


def _unmarked(blocks: Sequence[Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def _content(parts: tuple[Part, ...], cache: str, live: Collection[str]) -> list[Block]:
    """The blocks of a message: first the results of the calls `live`, then the rest."""
    results = [part for part in parts if part.answers in live]
    content: list[Block] = [
        *map(_result, results),
        *_said(tuple(p for p in parts if p not in results), cache),
    ]
    if results and cache != "off" and parts[-1].cache:  # what was last need not be now
        content[-1]["cache_control"] = _kept(cache)
    return content


def _result(part: Part) -> ToolResultBlockParam:
    text = wire_text(bare(part.text))
    content: list[TextBlockParam | ImageBlockParam | DocumentBlockParam] = [{"type": "text", "text": text}]
    if part.media is not None:
        content.append(media_block(part.media))
    return {"type": "tool_result", "tool_use_id": part.answers, "content": content, "is_error": part.failed}


def _said(parts: tuple[Part, ...], cache: str) -> list[Block]:
    """Text, and after the text of its part what is attached to it."""
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
