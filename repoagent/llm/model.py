"""The interface `Model`, and the types of requests and replies.

Everything specific to a provider is behind `Model`. The last part quotes text for prompts and renders a request as one
text, for programs, users and cassettes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, Protocol

from repoagent.dataclass import dataclass
from repoagent.errors import ModelError
from repoagent.llm.registry import parse_spec

if TYPE_CHECKING:
    from repoagent.llm.media import Media


def display_name(spec: str) -> str:
    """`spec` for display and for conversations, without keys."""
    provider, name, model = parsed = parse_spec(spec)
    is_command = provider.argument == "command"
    return f"{name}{provider.separator}{parsed.backend.display_name(model)}" if is_command else spec


def public_spec(spec: str) -> str:
    """Reduce `spec` to what may be published, for example in a commit.

    Of a file, only its name remains; of a command, only the program and the model that it reported.
    """
    provider, name, model = parse_spec(spec)
    if provider.argument not in {"command", "file"}:
        return spec
    reported = ""
    if provider.argument == "command":
        match = re.search(r" \([\w.:/@-]+\)$", model)
        reported = match[0] if match else ""
        model = next((word for word in model.split() if "=" not in word), "")
    return f"{name}{provider.separator}{model.rpartition('/')[2]}{reported}"


Role = Literal["user", "assistant"]
Stop = Literal["end", "length", "refusal"]


@dataclass(frozen=True)
class Part:
    """A named part of a prompt.

    cache: whether a prompt-cache breakpoint follows.
    media: an image or PDF that follows the text, in a user message.
    answers: the id of the tool call whose result this is.
    failed: whether that call failed.

    `answers` and `failed` are used only if the call is sent natively (see `ReplyBlocks`).
    """

    text: str
    name: str = ""
    cache: bool = False
    media: Media | None = None
    answers: str = ""
    failed: bool = False

    @property
    def in_words(self) -> str:
        """The text, with a line that describes the attachment."""
        return self.text if self.media is None else self.text + self.media.in_words()


@dataclass(frozen=True)
class ReplyBlocks:
    """A reply in its API's own form, to be sent back unchanged: thinking with signatures, and tool calls.

    spec: the model that wrote the reply.
    prefix: a hash of the request that the reply answers; signatures are valid only for this request. "" if nothing is
    signed.
    calls: the id of each call, and its tag in the text.
    """

    spec: str
    items: tuple[Mapping[str, Any], ...]
    prefix: str = ""
    calls: tuple[tuple[str, str], ...] = ()

    @property
    def unseen(self) -> str:
        """The thinking, which is sent in addition to the text of the reply."""
        thoughts = {"thinking", "redacted_thinking", "reasoning"}
        return "".join(json_strings([item for item in self.items if item.get("type") in thoughts]))


def json_strings(value: object, without: Collection[str] = ()) -> list[str]:
    """The strings in a JSON value, in order, except in the fields `without`."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        value = [inner for name, inner in value.items() if name not in without]
    items = value if isinstance(value, list | tuple) else ()
    return [text for item in items for text in json_strings(item, without)]


@dataclass(frozen=True)
class Message:
    """A message. While its `blocks` are valid, they are sent instead of the text to the model that wrote them."""

    role: Role
    parts: tuple[Part, ...]
    blocks: ReplyBlocks | None = None

    @property
    def text(self) -> str:
        """The text of all parts, without images and PDFs."""
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True)
class ToolSchema:
    """A native tool; its arguments are strings. `tag` converts a call to the equivalent tag."""

    name: str
    description: str
    arguments: tuple[str, ...]
    required: tuple[str, ...]
    tag: Callable[[Mapping[str, Any]], str] = field(compare=False, repr=False)

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments as JSON Schema."""
        properties = {name: {"type": "string"} for name in self.arguments}
        return {"type": "object", "properties": properties, "required": list(self.required)}


@dataclass(frozen=True)
class Request:
    """A model call: the system parts, and the messages, whose roles alternate; the last is the user's.

    key: identifies the request regardless of the prompt's wording; cassettes are searched for it.
    grammar: a GBNF grammar, for llama.cpp.
    temperature: overrides the user's setting.
    tools: native tools, for a model whose `takes` contains "tools".
    """

    system: tuple[Part, ...]
    messages: tuple[Message, ...]
    max_output_tokens: int = 16_000
    key: str = ""
    grammar: str = ""
    temperature: float | None = None
    tools: tuple[ToolSchema, ...] = ()

    @property
    def media(self) -> tuple[Media, ...]:
        """The attached images and PDFs of all messages, in order."""
        parts = (part for message in self.messages for part in message.parts)
        return tuple(part.media for part in parts if part.media is not None)


@dataclass(frozen=True)
class Wishes:
    """The user's settings for a model; None leaves the choice to the provider.

    effort: "low", "medium", "high", "xhigh" or "max".
    cache: the lifetime of a cached prefix, "5m", "1h" or "off".
    """

    effort: str | None = None
    temperature: float | None = None
    cache: str = "5m"


@dataclass(frozen=True)
class Usage:
    """The tokens of one attempt.

    `input` excludes cached tokens. `dollars` is the cost if the provider reports it.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    estimated: bool = False
    dollars: float | None = None

    @property
    def total(self) -> int:
        """The total number of tokens, including cached ones."""
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.estimated or other.estimated,
            None if self.dollars is None or other.dollars is None else self.dollars + other.dollars,
        )


@dataclass(frozen=True)
class Reply:
    text: str
    stop: Stop
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    blocks: ReplyBlocks | None = None  # if they contain more than the text


OnText = Callable[[str], None]


def non_blank(parts: Iterable[Part]) -> list[Part]:
    """Return the parts in a form that servers accept.

    Blank text is joined to its neighbor, and each image or PDF becomes a separate part. A cache breakpoint stays at the
    end of its part.
    """
    result: list[Part] = []
    blank = ""
    for part in parts:
        text, blank = blank + wire_text(part.text), ""
        cache = part.cache and part.media is None
        if text.strip():
            result.append(Part(text, cache=cache))
        elif result and result[-1].media is None:
            last = result[-1]
            result[-1] = replace(last, text=last.text + text, cache=last.cache or cache)
        else:
            blank = text
        if part.media is not None:
            result.append(Part("", cache=part.cache, media=part.media))
    return result


def with_results(
    request: Request, is_valid: Callable[[ReplyBlocks], bool]
) -> Iterator[tuple[Message, ReplyBlocks | None, list[Part]]]:
    """Yield each message with its blocks, and with those of its parts that answer calls in the previous blocks.

    The blocks are None unless they are valid and can be sent. The APIs reject a call without its result, so neither is
    sent without the other.
    """
    calls: list[str] = []
    for message, following in zip(request.messages, (*request.messages[1:], None), strict=True):
        blocks = message.blocks
        own = sorted(call for call, _ in blocks.calls) if blocks else []
        answers = sorted(part.answers for part in following.parts if part.answers) if following else []
        if blocks is not None and is_valid(blocks) and (not own or (own == answers and bool(request.tools))):
            calls = own
            yield message, blocks, []
        else:
            yield message, None, [part for part in message.parts if part.answers in calls]
            calls = []


class Model(Protocol):
    """A model, which makes one attempt per request. `llm.complete.complete` adds retries, continuations and limits."""

    @property
    def takes(self) -> frozenset[str]:
        """The fields of `Wishes` that this model supports, and "tools" if it supports `Request.tools`."""
        ...

    @property
    def spec(self) -> str:
        """`provider/model`, as the user spelled it."""
        ...

    @property
    def context_tokens(self) -> int | None:
        """The window in tokens; None if unknown."""
        ...

    def complete(self, request: Request, on_text: OnText) -> Reply:
        """Send `request`, call `on_text` with each piece of text, and return the reply.

        Raises Retryable for a transient failure, ModelError for any other failure.
        """
        ...


class Retryable(ModelError):
    """A transient failure.

    `retry_after` is the wait in seconds that the server asks for, if any; `usage` is the usage of the failed attempt.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.usage = usage or Usage()


def fence(content: str, label: str = "content") -> str:
    """Quote `content` for a prompt in a tag with the name and attributes `label`, such as `file path="a.py"`.

    If the content has a similar tag, the opening and the closing tag get an id. The same content is always quoted the
    same way, for caching.
    """
    label = re.sub(r"[\x00-\x1f\x7f<>]", "?", label).strip() or "content"
    name = label.split()[0]
    has_tag = re.search(rf"<\s*/?\s*{re.escape(name)}", content, re.IGNORECASE)
    mark = f' id="{unused_marker(content)}"' if has_tag else ""
    end = "" if content.endswith("\n") or not content else "\n"
    return f"<{label}{mark}>\n{content}{end}</{name}{mark}>"


def unfence(text: str) -> str:
    """`text` without the tags of `fence` with the label "output"."""
    return re.sub(r"^</?output(?: [^>\n]*)?>\n?", "", text, flags=re.MULTILINE)


def unused_marker(content: str) -> str:
    """A short hash of `content` that does not occur in it."""
    digest = sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    size = 6
    while digest[:size] in content and size < len(digest):
        size += 2
    return digest[:size]


def printable(text: str) -> str:
    """`text` with U+FFFD for each control character except newlines and tabs."""
    return "".join(c if c in "\n\t" or c.isprintable() else "�" for c in text)


def without_thought(reply: str) -> str:
    """A reply without the <think> section that some models write before it."""
    return re.sub(r"\s*<think>.*?</think>", "", reply, count=1, flags=re.DOTALL)


def wire_text(text: str) -> str:
    """`text` with U+FFFD for lone surrogates (bytes that were not UTF-8), which cannot be sent."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def tools_text(tools: Sequence[ToolSchema]) -> str:
    """The native tools as text, one per line."""
    lines = []
    for tool in tools:
        value = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        lines.append(json.dumps(value, ensure_ascii=False) + "\n")
    return "".join(lines)


def render_request(request: Request) -> str:
    """Render the whole prompt: the system parts, the native tools, then each message under a heading with its role.

    The headings contain a hash of the content, so no text can imitate one. An image or PDF becomes a line with its type
    and hash.
    """
    system = "".join(part.text for part in request.system)
    tools = tools_text(request.tools)
    turns = [(message.role, "".join(part.in_words for part in message.parts)) for message in request.messages]
    content = repr((system, turns, *([tools] if tools else [])))
    seal = sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    blocks = [f"===== {seal} {role} =====\n\n{text.rstrip()}\n" for role, text in turns]
    if tools:
        blocks.insert(0, f"===== {seal} tools =====\n\n{tools}")
    if system:
        blocks.insert(0, system.rstrip() + "\n")
    return wire_text("\n".join([*blocks, f"===== {seal} assistant =====\n"]))
