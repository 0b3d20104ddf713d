"""A streamed Chat Completion, as servers really send it: what of it is reply, thought, refusal, usage, error.

The lines are read here and not by the SDK's `Stream`, which does not tell a stream that ended from one that was
cut, drops what is no event (a login page, an error body) and fails on bytes that are no UTF-8.

OpenAI's Responses API: for models that think, since only there their reasoning can be sent back.

Nothing is stored at the provider: reasoning comes back encrypted, and stands in the input of each later request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from repoagent.llm.client import call_as_text
from repoagent.llm.model import Blocks, Message, OnText, Request, Schema, Stop, Usage, Wishes, wire_text
from repoagent.llm.providers.errors import ThoughtSplitter
from repoagent.llm.providers.openai_parameters import (
    THINKING_ROOM,
    Learned,
    beside_results,
    held,
    media_part,
    result_text,
)
from repoagent.llm.usage import estimate, estimate_tokens

_NO_DATA = (b"event:", b"id:", b"retry:", b":")


class StreamedChat:
    """What has come of a reply so far. Fields that a server leaves out or garbles are taken as absent."""

    def __init__(self, tools: Sequence[Schema] = ()) -> None:
        self.tools = tools  # those that were offered
        self.calls: list[tuple[str, str]] = []
        self.items: list[dict[str, Any]] = []  # of the Responses API
        self.garbled = False  # a call of a tool came whole and is no JSON
        self._said = ""  # before the calls
        self._started: dict[int, dict[str, str]] = {}  # calls, as they come in pieces
        self.began = False  # something of a reply came: it is paid for
        self.refusal = ""
        self.model = ""
        self.finish = ""
        self.done = False  # [DONE] was said
        self.error: object = None  # what the server said went wrong, in mid-stream or instead of a stream
        self.other = ""  # what came and is no event of a stream
        self._pieces: list[str] = []
        self._thoughts: list[str] = []  # no part of the reply, but paid for
        self._split = ThoughtSplitter()
        self._counts: dict[str, int] = {}
        self._cost: float | None = None

    def take(self, lines: Iterable[bytes], on_text: OnText) -> None:
        """Read a response to its end, to [DONE], or to an error. Raises json.JSONDecodeError for a cut line."""
        try:
            self._read(lines, on_text)
        finally:
            self._hear(*self._split.rest(), on_text)
        if self.stop == "end" and self.ended:
            self._said = self.text
            for _, call in sorted(self._started.items()):
                self._call(call["id"], call["name"], call["arguments"], on_text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def _read(self, lines: Iterable[bytes], on_text: OnText) -> None:
        other: list[bytes] = []
        for line in _lines(lines):
            if line.startswith(b"data:"):
                data = line[5:].strip()
                if data.startswith(b"[DONE]"):
                    self.done = True
                    break
                if data:
                    self._chunk(json.loads(data.decode("utf-8", "replace")), on_text)
            elif line.startswith(b"error:"):  # older llama.cpp servers
                self.error = _parsed(line[6:])
            elif not line.startswith(_NO_DATA):
                other.append(line)
            if self.error is not None:
                break
        self._answer(b"\n".join(other), on_text)

    @property
    def ended(self) -> bool:
        """Whether the reply is whole: the server gave a reason for its end, or wrote and then said [DONE]."""
        return bool(self.finish) or (self.done and bool(self._pieces or self.refusal))

    @property
    def stop(self) -> Stop:
        if self.refusal or self.finish.startswith(_REFUSALS):
            return "refusal"
        return "length" if self.finish in _LENGTHS else "end"

    @property
    def failed(self) -> bool:
        """Whether the server says by its reason for the end that it failed."""
        return self.finish in _FAILURES

    def _answer(self, body: bytes, on_text: OnText) -> None:
        """An answer that is no stream: an error, or the whole reply of a server that does not stream."""
        whole = _parsed(body) if body.strip() and not self.began else None
        if isinstance(whole, list) and len(whole) == 1:
            whole = whole[0]  # as Google sends an error
        if isinstance(whole, dict) and whole.get("choices"):
            self._chunk(whole, on_text)
            self.done = True
        elif isinstance(whole, dict) and ("error" in whole or "detail" in whole):
            self.error = whole.get("error") or whole
        elif body.strip() and not self.began:
            self.other = body.decode("utf-8", "replace").strip()

    def _chunk(self, chunk: object, on_text: OnText) -> None:
        if not isinstance(chunk, dict):
            return
        self.model = chunk["model"] if isinstance(chunk.get("model"), str) else self.model
        self.error = chunk.get("error") or self.error
        for usage in (_mapping(chunk.get("x_groq")).get("usage"), chunk.get("usage")):
            self._count(_mapping(usage))
        self.began = self.began or bool(chunk.get("choices") or self._counts)
        if not self.began and self.error is None:
            self.other = json.dumps(chunk)  # an event of another protocol
        for choice in _list(chunk.get("choices")):
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._choice(choice, on_text)

    def _choice(self, choice: Mapping[str, Any], on_text: OnText) -> None:
        delta = _mapping(choice.get("delta") or choice.get("message"))
        for name in ("reasoning_content", "reasoning", "thinking"):
            if isinstance(delta.get(name), str):
                self._thoughts.append(delta[name])
                break  # some servers send one text under two names
        thought, text = _content(delta.get("content"))
        self._hear(thought, "", on_text)
        self._hear(*self._split.feed(text), on_text)
        for number, piece in enumerate(_list(delta.get("tool_calls"))):
            self._call_piece(number, _mapping(piece))
        if isinstance(delta.get("refusal"), str):
            self.refusal += delta["refusal"]
        self.error = choice.get("error") or self.error
        if isinstance(choice.get("finish_reason"), str):
            self.finish = choice["finish_reason"]

    def _call_piece(self, number: int, piece: Mapping[str, Any]) -> None:
        """A piece of a call; most servers number calls, and send the name once."""
        at, named = piece.get("index"), _mapping(piece.get("function"))
        known = {"id": f"call_{number}", "name": "", "arguments": ""}
        call = self._started.setdefault(at if isinstance(at, int) else number, known)
        call["id"] = str(piece.get("id") or call["id"])
        call["name"] = str(named.get("name") or call["name"])
        call["arguments"] += str(named.get("arguments") or "")

    def _call(self, number: str, name: str, arguments: str, on_text: OnText) -> None:
        """A call that is complete, as a tag on a line of its own."""
        try:
            given = json.loads(arguments or "{}")
        except json.JSONDecodeError:
            self.garbled = True
            return
        tag, added = call_as_text(self.text, self.tools, name, given)
        self.calls.append((number, tag))
        self._hear("", added, on_text)

    def blocks(self, spec: str) -> Blocks | None:
        """The reply with its calls, to be sent back; None where it has none."""
        if not self.calls:
            return None
        said = self._said.strip()
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"] or "{}"},
            }
            for _, call in sorted(self._started.items())
        ]
        item = {"role": "assistant", "content": said or None, "tool_calls": calls}
        return Blocks(spec, (item,), "", tuple(self.calls))

    def _hear(self, thought: str, text: str, on_text: OnText) -> None:
        if thought:
            self._thoughts.append(thought)
        if text:
            self._pieces.append(text)
            on_text(text)

    def _count(self, usage: Mapping[str, Any]) -> None:
        """The latest numbers that can be true; a later nonsense does not undo an earlier count."""
        prompt, output = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        total = _count(usage.get("total_tokens"))
        details = _mapping(usage.get("prompt_tokens_details"))
        if prompt:
            self._counts["prompt"] = prompt
            cached = _count(details.get("cached_tokens")) or _count(usage.get("prompt_cache_hit_tokens"))
            written = _count(details.get("cache_write_tokens"))
            if cached + written <= prompt:
                self._counts["cached"], self._counts["written"] = cached, written
        if prompt and total > prompt + output:
            output = total - prompt  # xAI and Google leave thinking out of completion_tokens
        if output:
            self._counts["output"] = output
        cost = usage.get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf"):
            self._cost = (
                None if usage.get("is_byok") else float(cost)
            )  # with a key of one's own another bills

    @property
    def prompt_tokens(self) -> int | None:
        """How long the prompt was, as the server says; None where it does not."""
        return self._counts.get("prompt")

    def usage(self, request: Request, *, in_dollars: bool = False) -> Usage:
        """What the attempt has used; where the server has not said so (yet), an estimate. `in_dollars`: the cost
        that it names is in dollars."""
        if not self.began:
            return Usage()
        counts = self._counts
        wrote = "".join([*self._pieces, *self._thoughts, self.refusal])
        output = counts.get("output", 0)
        known = "prompt" in counts and (output > 0 or not wrote)
        if not self.ended or not output:
            output = max(output, estimate_tokens(wrote))
        cached, written = counts.get("cached", 0), counts.get("written", 0)
        prompt = counts["prompt"] if "prompt" in counts else estimate(request).input
        sure = known and self.ended
        dollars = self._cost if sure and in_dollars else None
        return Usage(prompt - cached - written, output, cached, written, not sure, dollars)


# What is not named here is an end.
_LENGTHS = ("length", "max_tokens", "model_length", "model_context_window_exceeded")
_REFUSALS = ("content_filter", "safety", "SAFETY", "refusal", "sensitive")
_FAILURES = ("error", "network_error", "insufficient_system_resource")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, which end at a line feed only: JSON may hold U+2028 and the like as they are."""
    started: list[bytes] = []
    for chunk in chunks:
        first, *more = chunk.split(b"\n")
        started.append(first)
        for line in more:
            yield b"".join(started).rstrip(b"\r")
            started = [line]
    last = b"".join(started)
    if last:
        yield last


def _content(content: object) -> tuple[str, str]:
    """Thought and text of `content`: a text, or (Mistral) a list of parts of both kinds."""
    if isinstance(content, str):
        return "", content
    thought, text = "", ""
    for part in _list(content):
        if isinstance(part, dict) and part.get("type") == "thinking":
            thought += "".join(_content(part.get("thinking")))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            text += part["text"]
    return thought, text


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except json.JSONDecodeError:
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int:
    """A number of tokens; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


_KNOWN = {"reasoning", "message", "function_call"}
_STOPS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def response_parameters(
    spec: str, name: str, request: Request, wishes: Wishes, learned: Learned
) -> dict[str, Any]:
    """The fields of the request, without what the server does not take."""
    effort = learned.highest_effort or wishes.effort
    sent: dict[str, Any] = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": wire_text("".join(part.text for part in request.system)) or None,
        "max_output_tokens": request.max_output_tokens + THINKING_ROOM,
        "reasoning": {"effort": effort} if effort else None,
        "temperature": wishes.temperature if request.temperature is None else request.temperature,
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in request.tools
        ]
        or None,
    }
    return {
        "model": name,
        "input": _input(request, spec),
        "stream": True,
        **{key: value for key, value in sent.items() if value is not None and key not in learned.without},
    }


def _input(request: Request, spec: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for message, blocks, live in held(request, spec):
        if blocks is not None:
            items += [{**item} for item in blocks.items]
        elif message.role == "assistant":
            items.append({"role": "assistant", "content": wire_text(message.text)})
        else:
            items += [
                {"type": "function_call_output", "call_id": part.answers, "output": result_text(part)}
                for part in message.parts
                if part.answers in live
            ]
            items += _said(Message("user", beside_results(message, live)))
    return items


def _said(message: Message) -> list[dict[str, Any]]:
    """The user's words: one text, and after the text of its part what is attached to it."""
    content: list[dict[str, Any]] = []
    text = ""
    for part in message.parts:
        text += part.text
        if part.media is not None:
            content += [{"type": "input_text", "text": wire_text(text)}] if text.strip() else []
            content.append(_attached(media_part(part.media)))
            text = ""
    if text.strip():
        content.append({"type": "input_text", "text": wire_text(text)})
    return [{"role": "user", "content": content}] if content else []


def _attached(part: Mapping[str, Any]) -> dict[str, Any]:
    """An image or PDF, from the form that Chat Completions has for it."""
    if part["type"] == "image_url":
        return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}
    return {"type": "input_file", **part["file"]}


class StreamedResponse(StreamedChat):
    """What has come of a response so far."""

    def _chunk(self, chunk: object, on_text: OnText) -> None:
        if not isinstance(chunk, dict):
            return
        kind = str(chunk.get("type", ""))
        if kind == "error":
            self.error = chunk.get("error") or chunk
        elif not kind.startswith("response."):
            self.other = self.other or str(chunk)[:200]
            self.error = chunk.get("error") or self.error
        else:
            self.began = True
            self._event(kind.removeprefix("response."), chunk, on_text)

    def _event(self, kind: str, chunk: Mapping[str, Any], on_text: OnText) -> None:
        delta = chunk.get("delta")
        if kind == "output_text.delta" and isinstance(delta, str):
            self._hear("", delta, on_text)
        elif kind == "refusal.delta" and isinstance(delta, str):
            self.refusal += delta
        elif kind in {"reasoning_text.delta", "reasoning_summary_text.delta"} and isinstance(delta, str):
            self._thoughts.append(delta)
        elif kind == "output_item.done" and isinstance(chunk.get("item"), dict):
            self._item(chunk["item"], on_text)
        whole = chunk.get("response")
        if isinstance(whole, dict):
            self._whole(kind, whole)

    def _item(self, item: dict[str, Any], on_text: OnText) -> None:
        self.items.append(item)
        if item.get("type") == "function_call":
            self._call(
                str(item.get("call_id")), str(item.get("name")), str(item.get("arguments") or ""), on_text
            )

    def _whole(self, kind: str, whole: Mapping[str, Any]) -> None:
        self.model = whole["model"] if isinstance(whole.get("model"), str) else self.model
        used = whole.get("usage")
        if isinstance(used, dict):
            self._count(
                {
                    "prompt_tokens": used.get("input_tokens"),
                    "completion_tokens": used.get("output_tokens"),
                    "prompt_tokens_details": used.get("input_tokens_details"),
                }
            )
        if kind == "completed":
            self.finish = "stop"
        elif kind == "incomplete":
            why = whole.get("incomplete_details")
            self.finish = _STOPS.get(str(why.get("reason")) if isinstance(why, dict) else "", "length")
        elif kind == "failed":
            self.error = whole.get("error") or {"message": "the response failed"}

    def blocks(self, spec: str) -> Blocks | None:
        """The items to be sent back; none where the reasoning came without what it is known by."""
        kinds = {item.get("type") for item in self.items}
        if not kinds <= _KNOWN or kinds <= {"message"}:
            return None
        if any(item["type"] == "reasoning" and not item.get("encrypted_content") for item in self.items):
            return None
        return Blocks(spec, tuple(self.items), "", tuple(self.calls))
