"""Images and PDFs as parts of a message of Chat Completions, and what of them a server takes.

What is sent to a server of Chat Completions, and what of it this one turned out not to take.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from repoagent.dataclass import dataclass
from repoagent.llm.conversation import observation_text
from repoagent.llm.media import MediaLimits
from repoagent.llm.model import Blocks, Message, Part, Request, Wishes, wire_text
from repoagent.llm.providers.endpoints import Endpoint
from repoagent.llm.providers.openai_errors import ApiError

if TYPE_CHECKING:
    from repoagent.llm.media import Media

_NO_PDF = (
    "its server does not take PDFs with this protocol. Send its text (pdftotext IN.pdf OUT.txt) or its pages as images "
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


BREAKPOINTS = 4  # of the prompt cache, in one request
THINKING_ROOM = 32_000  # tokens; thinking counts against the limit on a reply and must not eat it up

_LIMITS = ("max_completion_tokens", "max_tokens")
_NEEDED = {"model", "messages", "input", "tools", "stream"}
_SYSTEM, _CACHE = "system role", "cache_control"
# Names that the SDK's `create` does not know.
_EXTRA = ("grammar", "reasoning")

THINKS = re.compile(
    r"(^|/)(o\d|gpt-([5-9]|oss)|gemini-([3-9]|2\.5)|grok-[4-9]|deepseek-r|qwq|magistral)|thinking|reason",
    re.I,
)


@dataclass
class Learned:
    """What a server does not take of what it was sent; filled by `learn`, kept for the next calls."""

    without: set[str] = field(default_factory=set)
    highest_effort: str = ""  # "high", where it takes nothing above


def parameters(
    endpoint: Endpoint, name: str, request: Request, wishes: Wishes, learned: Learned
) -> dict[str, Any]:
    """The fields of the request, without what the server does not take."""
    room = THINKING_ROOM if wishes.effort or THINKS.search(name) else 0
    preferred = _LIMITS if "max_completion_tokens" in endpoint.traits else _LIMITS[::-1]
    limit = next((limit for limit in preferred if limit not in learned.without), "")
    effort = learned.highest_effort or wishes.effort
    as_object = "reasoning_object" in endpoint.traits
    sent: dict[str, Any] = {
        limit: request.max_output_tokens + room,
        "stream_options": None if "usage_unasked" in endpoint.traits else {"include_usage": True},
        "reasoning_effort": None if as_object else effort,
        "reasoning": {"effort": effort} if effort and as_object else None,
        "temperature": wishes.temperature if request.temperature is None else request.temperature,
        "stop": list(wishes.stop) or None,
        "grammar": request.grammar if "grammar" in endpoint.traits and request.grammar else None,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
        or None,
    }
    return {
        "model": name,
        "messages": _messages(
            request, learned, _lifetime(endpoint, name, wishes, learned), f"{endpoint.name}/{name}"
        ),
        "stream": True,
        **{
            key: value
            for key, value in sent.items()
            if key and value is not None and key not in learned.without
        },
    }


def held(request: Request, spec: str) -> Iterator[tuple[Message, Blocks | None, frozenset[str]]]:
    """Each message, with its blocks where it is to be sent as those, or with the ids of the calls before it that it
    answers by results. A call is sent with its result or not at all."""
    live: frozenset[str] = frozenset()
    for message, after in zip(request.messages, (*request.messages[1:], None), strict=True):
        blocks = message.blocks
        calls = sorted(call for call, _ in blocks.calls) if blocks else []
        answers = sorted(part.answers for part in after.parts if part.answers) if after else []
        if blocks is None or blocks.spec != spec or (calls and (calls != answers or not request.tools)):
            yield message, None, live
            live = frozenset()
        else:
            yield message, blocks, frozenset()
            live = frozenset(calls)


def result_text(part: Part) -> str:
    """The result of a call; these APIs have no field that says that it failed."""
    return wire_text(observation_text(part.text))


def beside_results(message: Message, live: Collection[str]) -> tuple[Part, ...]:
    """What of a message is not the result of a call in `live`, and the images and PDFs that are: these APIs take only
    text as a result, so they follow the results."""
    parts = (
        part if part.answers not in live else Part("", part.name, media=part.media) for part in message.parts
    )
    return tuple(part for part in parts if part.text or part.media)


def as_arguments(sent: Mapping[str, Any]) -> dict[str, Any]:
    """`sent` as arguments of the SDK's `create`."""
    extra = {key: value for key, value in sent.items() if key in _EXTRA}
    return {**{key: value for key, value in sent.items() if key not in _EXTRA}, "extra_body": extra or None}


_REJECTS = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|not permitted|extra_forbidden|unexpected|not allowed|invalid"
    r"|deprecated|incompatible|not compatible|must be|does not (take|accept)|not (enabled|available)"
    r"|too large|at most|less than|greater|range|failed to parse|in the (completion|output)|only"
)
_TOO_MUCH = re.compile(
    r"too large|at most|less than|greater|range|exceed|context|must be|in the (completion|output)"
)
_SYSTEM_MARKS = re.compile(
    r"system (role|message|prompt)s? (is |are )?not|role' does not support 'system'|developer instruction is not"
)


def learn(failed: ApiError, sent: Mapping[str, Any], learned: Learned) -> str | None:
    """Note in `learned` which optional fields of `sent` the server rejects, and say so in words that go after a
    model's name; None when it rejects none of them."""
    if failed.status not in {400, 422, 500, 501} or not (failed.param or _REJECTS.search(failed.all)):
        return None
    named = [key for key in sent if key not in _NEEDED and _names(failed, key)]
    if failed.status >= 500:
        named = []  # a server that failed may repeat the whole request
    messages = sent.get("messages", ())
    if any(message["role"] == "system" for message in messages) and _SYSTEM_MARKS.search(failed.all):
        named = [_SYSTEM]
    elif _CACHE in failed.all and _CACHE in str(messages):
        named.append(_CACHE)
    effort = {"reasoning_effort", "reasoning"} & set(named)
    if effort and _effort_of(sent) in {"xhigh", "max"} and not learned.highest_effort:
        learned.highest_effort = "high"
        named = [key for key in named if key not in effort]
        if not named:
            return f"does not support effort {_effort_of(sent)}: continuing with high"
    if not named:
        return None
    learned.without.update(named)
    limit = next((key for key in named if key in _LIMITS), None)
    if limit and _TOO_MUCH.search(failed.all):
        learned.without.update(_LIMITS)  # the other name would not help
    elif limit and not learned.without.issuperset(_LIMITS):
        return f"wants {next(other for other in _LIMITS if other != limit)} instead of {limit}: continuing with it"
    return f"does not support {' and '.join(_WORDS.get(key, key) for key in named)}: continuing without"


_WORDS = {
    "reasoning_effort": "effort",
    "reasoning": "effort",
    "max_tokens": "a limit on the length of a reply",
    "max_completion_tokens": "a limit on the length of a reply",
}


def _names(failed: ApiError, key: str) -> bool:
    """Whether an error is about the field `key`. `stop` is a word of every language: only in quotes."""
    if failed.param and failed.param.split(".")[0] == key:
        return True
    if key == "stop":
        return bool(re.search(r"['\"`]stop['\"`]|: stop\b", failed.all))
    return bool(re.search(rf"(?<![a-z_]){key}(?![a-z_])", failed.all))


def _effort_of(sent: Mapping[str, Any]) -> str:
    return str(sent.get("reasoning_effort") or sent.get("reasoning", {}).get("effort"))


def _lifetime(endpoint: Endpoint, name: str, wishes: Wishes, learned: Learned) -> str:
    """How long a cache breakpoint keeps, "" where there are none."""
    taken = (
        "breakpoints" in endpoint.traits and name.startswith("anthropic/") and _CACHE not in learned.without
    )
    return wishes.cache if taken and wishes.cache != "off" else ""


def _messages(request: Request, learned: Learned, lifetime: str, spec: str) -> list[dict[str, Any]]:
    if any(message.blocks for message in request.messages):
        return _with_calls(request, learned, lifetime, spec)
    said = [("system", request.system)] if any(part.text.strip() for part in request.system) else []
    said += [(message.role, message.parts) for message in request.messages]
    if said[0][0] == "system" and _SYSTEM in learned.without:  # the first words of the user, then
        (_, system), (role, parts), *rest = said
        said = [(role, (*system, Part("\n\n"), *parts)), *rest]
    if not lifetime:
        return [{"role": role, "content": _content(parts)} for role, parts in said]
    messages: list[dict[str, Any]] = [
        {"role": role, "content": _blocks(parts, lifetime)} for role, parts in said
    ]
    marked = [block for message in messages for block in message["content"] if _CACHE in block]
    for block in marked[:-BREAKPOINTS]:  # the longest prefixes are worth most
        del block[_CACHE]
    return messages


def _with_calls(request: Request, learned: Learned, lifetime: str, spec: str) -> list[dict[str, Any]]:
    """The messages, with calls of tools and their results where there are some."""
    plain = replace(request, messages=tuple(replace(message, blocks=None) for message in request.messages))
    written = _messages(plain, learned, lifetime, spec)
    made = written[: len(written) - len(request.messages)]
    for said, (message, blocks, live) in zip(written[len(made) :], held(request, spec), strict=True):
        if blocks is not None:
            made += [{**item} for item in blocks.items]
            continue
        results = [part for part in message.parts if part.answers in live]
        made += [
            {"role": "tool", "tool_call_id": part.answers, "content": result_text(part)} for part in results
        ]
        rest = beside_results(message, live)
        if not results:
            made.append(said)
        elif any(part.text.strip() or part.media for part in rest):
            made.append({"role": "user", "content": _blocks(rest, lifetime) if lifetime else _content(rest)})
    return made


def _content(parts: tuple[Part, ...]) -> str | list[dict[str, Any]]:
    """One text, which every server takes, or where something is attached a list of parts."""
    if any(part.media for part in parts):
        return _blocks(parts, "")
    return wire_text(Message("user", parts).text)


def _blocks(parts: tuple[Part, ...], lifetime: str) -> list[dict[str, Any]]:
    """The text as parts that end at the breakpoints and at what is attached. A blank part is rejected, so it joins its
    neighbour."""
    blocks: list[dict[str, Any]] = []
    text = ""
    for part in parts:
        text += part.text
        if part.media is not None:
            if text.strip():
                blocks.append({"type": "text", "text": wire_text(text)})
            blocks.append(media_part(part.media))
            text = ""
        elif part.cache and lifetime and text.strip():
            mark = {"type": "ephemeral"} | ({"ttl": lifetime} if lifetime != "5m" else {})
            blocks.append({"type": "text", "text": wire_text(text), _CACHE: mark})
            text = ""
    if text.strip() or not blocks:
        blocks.append({"type": "text", "text": wire_text(text)})
    elif text and "text" in blocks[-1]:
        blocks[-1]["text"] += text
    return blocks
