"""Request bodies for OpenAI's Chat Completions and Responses APIs, without the fields that the server has rejected."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from repoagent.llm.conversation import observation_text
from repoagent.llm.model import Message, Part, Request, ToolSchema, Wishes, non_blank, wire_text, with_results
from repoagent.llm.providers.errors import BREAKPOINTS, THINKING_TOKENS, ServerError

if TYPE_CHECKING:
    from repoagent.llm.media import Media
    from repoagent.llm.providers.endpoints import Endpoint

# Models that think; their replies may be longer by THINKING_TOKENS.
THINKS = re.compile(
    r"(^|/)(o\d|gpt-([5-9]|oss)|gemini-([3-9]|2\.5)|grok-[4-9]|deepseek-r|qwq|magistral)|thinking|reason",
    re.I,
)
_LIMITS = ("max_completion_tokens", "max_tokens")
_REQUIRED = {"model", "messages", "input", "instructions", "tools", "stream"}
_CACHE = "cache_control"


def chat_body(
    endpoint: Endpoint, name: str, request: Request, wishes: Wishes, without: set[str]
) -> dict[str, Any]:
    """The body for Chat Completions, except the fields in `without`."""
    traits = endpoint.traits
    thinking = THINKING_TOKENS if wishes.effort or THINKS.search(name) else 0
    limits = _LIMITS if "max_completion_tokens" in traits else _LIMITS[::-1]
    limit = next((limit for limit in limits if limit not in without), "")
    effort = wishes.effort
    as_object = "reasoning_object" in traits
    caches = "breakpoints" in traits and name.startswith("anthropic/") and _CACHE not in without
    ttl = wishes.cache if caches and wishes.cache != "off" else ""
    messages: list[dict[str, Any]] = []
    if any(part.text.strip() for part in request.system):
        messages.append({"role": "system", "content": _content(request.system, ttl)})
    spec = f"{endpoint.name}/{name}"
    for message, blocks, results in with_results(request, lambda reply: reply.spec == spec):
        if blocks is not None:
            messages += [{**item} for item in blocks.items]
            continue
        for part in results:
            text = wire_text(observation_text(part.text))  # there is no field for a failure
            messages.append({"role": "tool", "tool_call_id": part.answers, "content": text})
        parts = _after_results(message, results)
        if not results or any(part.text.strip() or part.media for part in parts):
            messages.append({"role": message.role, "content": _content(parts, ttl)})
    content = [block for message in messages for block in message["content"] or () if _CACHE in block]
    for block in content[:-BREAKPOINTS] if ttl else ():  # the longest prefixes save most
        del block[_CACHE]
    optional = {
        limit: request.max_output_tokens + thinking if limit else None,
        "stream_options": None if "usage_unasked" in traits else {"include_usage": True},
        "reasoning_effort": None if as_object else effort,
        "reasoning": {"effort": effort} if effort and as_object else None,
        "temperature": wishes.temperature if request.temperature is None else request.temperature,
        "grammar": request.grammar if "grammar" in traits and request.grammar else None,
        "tools": [{"type": "function", "function": _tool(tool)} for tool in request.tools] or None,
    }
    return {"model": name, "messages": messages, "stream": True, **_allowed(without, optional)}


def responses_body(
    spec: str, name: str, request: Request, wishes: Wishes, without: set[str]
) -> dict[str, Any]:
    """Return the body of a request to the Responses API, except the fields in `without`.

    The provider stores nothing: it returns its reasoning encrypted.
    """
    items: list[dict[str, Any]] = []
    for message, blocks, results in with_results(request, lambda reply: reply.spec == spec):
        if blocks is not None:
            items += [{**item} for item in blocks.items]
            continue
        if message.role == "assistant":
            items.append({"role": "assistant", "content": wire_text(message.text)})
            continue
        for part in results:
            text = wire_text(observation_text(part.text))
            items.append({"type": "function_call_output", "call_id": part.answers, "output": text})
        content: list[dict[str, Any]] = []
        for part in non_blank(_after_results(message, results)):
            if part.media is None:
                content.append({"type": "input_text", "text": part.text})
            elif part.media.is_image:
                url = _media_block(part.media)["image_url"]["url"]
                content.append({"type": "input_image", "image_url": url, "detail": "auto"})
            else:
                content.append({"type": "input_file", **_media_block(part.media)["file"]})
        items += [{"role": "user", "content": content}] if content else []
    effort = wishes.effort
    optional = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": wire_text("".join(part.text for part in request.system)) or None,
        "max_output_tokens": request.max_output_tokens + THINKING_TOKENS,
        "reasoning": {"effort": effort} if effort else None,
        "temperature": wishes.temperature if request.temperature is None else request.temperature,
        "tools": [{"type": "function", **_tool(tool), "strict": False} for tool in request.tools] or None,
    }
    return {"model": name, "input": items, "stream": True, **_allowed(without, optional)}


def _allowed(without: set[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and key not in without}


def _tool(tool: ToolSchema) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _after_results(message: Message, results: list[Part]) -> tuple[Part, ...]:
    """The parts that are not `results`, and the media of the results: these APIs accept only text as a result."""
    parts = (Part("", part.name, media=part.media) if part in results else part for part in message.parts)
    return tuple(part for part in parts if part.text or part.media)


def _content(parts: tuple[Part, ...], ttl: str) -> str | list[dict[str, Any]]:
    """A single text, which every server accepts; or blocks if there are cache breakpoints or media."""
    if not ttl and not any(part.media for part in parts):
        return wire_text("".join(part.text for part in parts))
    blocks = []
    for part in non_blank(parts):
        block: dict[str, Any] = {"type": "text", "text": part.text}
        if part.media:
            block = _media_block(part.media)
        if part.cache and ttl and not part.media:
            block[_CACHE] = {"type": "ephemeral"} | ({"ttl": ttl} if ttl != "5m" else {})
        blocks.append(block)
    return blocks


def _media_block(media: Media) -> dict[str, Any]:
    url = f"data:{media.type};base64,{b64encode(media.data).decode('ascii')}"
    if media.is_image:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": wire_text(media.name) or "document.pdf", "file_data": url}}


_NAMES = {"reasoning_effort": "effort", "reasoning": "effort"}


def learn(error: ServerError, body: Mapping[str, Any], without: set[str]) -> str | None:
    """Add to `without` the optional fields of `body` that the server rejects.

    Return a message that continues a sentence beginning with the model's name, or None if the server rejects no field.
    A field that the error merely mentions is added too: at worst this costs an attempt, and the next error is reported.
    """
    if error.status not in {400, 422}:
        return None
    is_length = re.search(r"in the (completion|output)", error.text)
    fields = [
        key
        for key in body
        if key not in _REQUIRED
        and (
            error.param.split(".")[0] == key
            or (key in _LIMITS and is_length)
            or re.search(rf"(?<![a-z_]){key}(?![a-z_])", error.text)
        )
    ]
    if _CACHE in error.text and _CACHE in str(body.get("messages")):
        fields.append(_CACHE)
    if not fields:
        return None
    without.update(fields)
    names = " and ".join(_NAMES.get(key, key) for key in fields)
    return f"does not support {names}: continuing without {'it' if len(fields) == 1 else 'them'}"
