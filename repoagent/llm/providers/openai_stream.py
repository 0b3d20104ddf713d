"""Parse a streamed reply of a server with OpenAI's protocol, including common deviations.

This does not use an SDK, whose stream does not distinguish a complete reply from a truncated one, drops everything that
is not an event (a login page, an error body) and fails on invalid UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from repoagent.llm.complete import call_as_text
from repoagent.llm.model import OnText, ReplyBlocks, Request, Stop, ToolSchema, Usage, wire_text
from repoagent.llm.usage import estimate_tokens, estimate_usage

_NO_DATA = (b"event:", b"id:", b"retry:", b":")
# Values of finish_reason; any other value is a normal end.
_LENGTHS = ("length", "max_tokens", "model_length", "model_context_window_exceeded")
_REFUSALS = ("content_filter", "safety", "SAFETY", "refusal", "sensitive")
_FAILURES = ("error", "network_error", "insufficient_system_resource")
_THINK, _THINK_END = "<think>", "</think>"


class ThoughtSplitter:
    """Splits text that arrives in pieces, and may start with <think>…</think>, into thought and reply."""

    def __init__(self) -> None:
        self._rest = ""
        self._in_text = False

    def feed(self, piece: str, *, final: bool = False) -> tuple[str, str]:
        """Add `piece`; return the thought and the text that are now complete and were not returned before."""
        self._rest += piece
        thought = ""
        if not self._in_text:
            body = self._rest.lstrip()
            if body.startswith(_THINK):
                if _THINK_END not in body and not final:
                    return "", ""
                thought, _, rest = body.removeprefix(_THINK).partition(_THINK_END)
                if not (rest := rest.lstrip("\r\n")) and not final:
                    return "", ""
                self._rest = rest
            elif _THINK.startswith(body) and not final:
                return "", ""
            self._in_text = True
        # the halves of JSON's \ud83d\ude00 may arrive in two pieces
        certain = len(self._rest) - (not final and "\ud800" <= self._rest[-1:] <= "\udbff")
        text, self._rest = self._rest[:certain], self._rest[certain:]
        return thought, wire_text(text)


class StreamedChat:
    """The part of a Chat Completions reply that has arrived. Invalid fields count as absent.

    began: whether part of a reply has arrived, which costs money.
    finish: why the reply ended.
    error: the server's error.
    other: content that is not an event.
    garbled: whether a complete tool call is not JSON.
    """

    def __init__(self, tools: Sequence[ToolSchema] = ()) -> None:
        self.began = False
        self.refusal = ""
        self.model = ""
        self.finish = ""
        self.error: object = None
        self.other = ""
        self.garbled = False
        self.calls: list[tuple[str, str]] = []  # (id, tag)
        self._tools = tools
        self._done = False  # [DONE] has arrived
        self._text_before_calls = ""
        self._call_pieces: dict[int, dict[str, str]] = {}
        self._pieces: list[str] = []
        self._thoughts: list[str] = []  # not part of the reply, but counted in the usage
        self._splitter = ThoughtSplitter()
        self.counts: dict[str, int] = {}  # as reported: "prompt", "output", "cached", "written"
        self._cost: float | None = None

    def take(self, chunks: Iterable[bytes], on_text: OnText) -> None:
        """Read a response up to its end, [DONE], or an error. Raises json.JSONDecodeError for a truncated line."""
        other: list[bytes] = []
        try:
            for line in _lines(chunks):
                if line.startswith(b"data:"):
                    data = line[5:].strip()
                    if data.startswith(b"[DONE]"):
                        self._done = True
                        break
                    if data:
                        self._take_event(json.loads(data.decode("utf-8", "replace")), on_text)
                elif not line.startswith(_NO_DATA):
                    other.append(line)
                if self.error is not None:
                    break
            self._take_body(b"\n".join(other), on_text)
        finally:
            self._add(*self._splitter.feed("", final=True), on_text)
        if self.stop == "end" and self.ended:
            self._text_before_calls = self.text
            for _, call in sorted(self._call_pieces.items()):
                self._add_call(call["id"], call["name"], call["arguments"], on_text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def ended(self) -> bool:
        """Whether the reply is complete: the server sent a finish reason, or [DONE] after some text."""
        return bool(self.finish) or (self._done and bool(self._pieces or self.refusal))

    @property
    def stop(self) -> Stop:
        if self.refusal or self.finish.startswith(_REFUSALS):
            return "refusal"
        return "length" if self.finish in _LENGTHS else "end"

    @property
    def failed(self) -> bool:
        """Whether the reply ended because the server failed."""
        return self.finish in _FAILURES

    def _take_body(self, body: bytes, on_text: OnText) -> None:
        """Process a body that is not a stream: an error, or the reply of a server that does not stream."""
        if not body.strip() or self.began:
            return
        text, value = body.decode("utf-8", "replace"), None
        with suppress(json.JSONDecodeError):
            value = json.loads(text)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]  # an error of Google
        if isinstance(value, dict) and value.get("choices"):
            self._take_event(value, on_text)
            self._done = True
        elif isinstance(value, dict) and ("error" in value or "detail" in value):
            self.error = value.get("error") or value
        else:
            self.other = text.strip()

    def _take_event(self, event: object, on_text: OnText) -> None:
        if not isinstance(event, dict):
            return
        self.model = event["model"] if isinstance(event.get("model"), str) else self.model
        self.error = event.get("error") or self.error
        self._count(_mapping(event.get("usage")))
        self.began = self.began or bool(event.get("choices") or self.counts)
        if not self.began and self.error is None:
            self.other = json.dumps(event)  # an event of another protocol
        for choice in _list(event.get("choices")):
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._take_choice(choice, on_text)

    def _take_choice(self, choice: Mapping[str, Any], on_text: OnText) -> None:
        delta = _mapping(choice.get("delta") or choice.get("message"))
        names = ("reasoning_content", "reasoning", "thinking")  # some servers send the same text under two
        thought = next((delta[name] for name in names if isinstance(delta.get(name), str)), "")
        more, text = _content(delta.get("content"))
        self._add(thought + more, "", on_text)
        self._add(*self._splitter.feed(text), on_text)
        for number, piece in enumerate(map(_mapping, _list(delta.get("tool_calls")))):
            # most servers number calls, and send the name once
            index, function = piece.get("index"), _mapping(piece.get("function"))
            index = index if isinstance(index, int) else number
            new = {"id": f"call_{number}", "name": "", "arguments": ""}
            call = self._call_pieces.setdefault(index, new)
            call["id"] = str(piece.get("id") or call["id"])
            call["name"] = str(function.get("name") or call["name"])
            call["arguments"] += str(function.get("arguments") or "")
        if isinstance(delta.get("refusal"), str):
            self.refusal += delta["refusal"]
        self.error = choice.get("error") or self.error
        if isinstance(choice.get("finish_reason"), str):
            self.finish = choice["finish_reason"]

    def _add(self, thought: str, text: str, on_text: OnText) -> None:
        if thought:
            self._thoughts.append(thought)
        if text:
            self._pieces.append(text)
            on_text(text)

    def _add_call(self, call_id: str, name: str, arguments: str, on_text: OnText) -> None:
        """Add a complete call as a tag on a separate line."""
        try:
            values = json.loads(arguments or "{}")
        except json.JSONDecodeError:
            self.garbled = True
            return
        tag, text = call_as_text(self.text, self._tools, name, values)
        self.calls.append((call_id, tag))
        self._add("", text, on_text)

    def blocks(self, spec: str) -> ReplyBlocks | None:
        """The reply with its calls, to be sent back; None if it has no calls."""
        if not self.calls:
            return None
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"] or "{}"},
            }
            for _, call in sorted(self._call_pieces.items())
        ]
        content = self._text_before_calls.strip() or None
        item = {"role": "assistant", "content": content, "tool_calls": calls}
        return ReplyBlocks(spec, (item,), "", tuple(self.calls))

    def _count(self, usage: Mapping[str, Any]) -> None:
        """Store the latest plausible numbers; implausible ones do not replace earlier counts."""
        prompt, output, total = (
            _tokens(usage.get(name)) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
        )
        details = _mapping(usage.get("prompt_tokens_details"))
        if prompt:
            self.counts["prompt"] = prompt
            cached = _tokens(details.get("cached_tokens")) or _tokens(usage.get("prompt_cache_hit_tokens"))
            written = _tokens(details.get("cache_write_tokens"))
            if cached + written <= prompt:
                self.counts |= {"cached": cached, "written": written}
        if prompt and total > prompt + output:
            output = total - prompt  # xAI and Google leave thinking out of completion_tokens
        if output:
            self.counts["output"] = output
        cost = usage.get("cost")
        if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < float("inf"):
            # if the user's key of another provider is used, that provider charges the cost
            self._cost = None if usage.get("is_byok") else float(cost)

    def usage(self, request: Request, *, in_dollars: bool = False) -> Usage:
        """Return the usage of the attempt, estimated if the server has not reported it.

        `in_dollars` says whether the reported cost is in US dollars.
        """
        if not self.began:
            return Usage()
        counts = self.counts
        written_text = "".join([*self._pieces, *self._thoughts, self.refusal])
        output = counts.get("output", 0)
        exact = self.ended and "prompt" in counts and (output > 0 or not written_text)
        if not self.ended or not output:
            output = max(output, estimate_tokens(written_text))
        cached, written = counts.get("cached", 0), counts.get("written", 0)
        prompt = counts["prompt"] if "prompt" in counts else estimate_usage(request).input
        dollars = self._cost if exact and in_dollars else None
        return Usage(prompt - cached - written, output, cached, written, not exact, dollars)


class StreamedResponse(StreamedChat):
    """The part of a Responses API reply that has arrived."""

    def __init__(self, tools: Sequence[ToolSchema] = ()) -> None:
        super().__init__(tools)
        self._items: list[dict[str, Any]] = []

    def _take_event(self, event: object, on_text: OnText) -> None:
        if not isinstance(event, dict):
            return
        kind = str(event.get("type", ""))
        if kind == "error":
            self.error = event.get("error") or event
            return
        if not kind.startswith("response."):
            self.other = self.other or str(event)[:200]
            self.error = event.get("error") or self.error
            return
        self.began = True
        kind, delta, item = kind.removeprefix("response."), event.get("delta"), event.get("item")
        if isinstance(delta, str):
            if kind == "output_text.delta":
                self._add("", delta, on_text)
            elif kind == "refusal.delta":
                self.refusal += delta
            elif kind in {"reasoning_text.delta", "reasoning_summary_text.delta"}:
                self._thoughts.append(delta)
        elif kind == "output_item.done" and isinstance(item, dict):
            self._items.append(item)
            if item.get("type") == "function_call":
                arguments = str(item.get("arguments") or "")
                self._add_call(str(item.get("call_id")), str(item.get("name")), arguments, on_text)
        if isinstance(response := event.get("response"), dict):
            self.model = response["model"] if isinstance(response.get("model"), str) else self.model
            usage = _mapping(response.get("usage"))
            self._count(
                {
                    "prompt_tokens": usage.get("input_tokens"),
                    "completion_tokens": usage.get("output_tokens"),
                    "prompt_tokens_details": usage.get("input_tokens_details"),
                }
            )
            if kind == "completed":
                self.finish = "stop"
            elif kind == "incomplete":
                reason = str(_mapping(response.get("incomplete_details")).get("reason"))
                self.finish = "content_filter" if reason == "content_filter" else "length"
            elif kind == "failed":
                self.error = response.get("error") or {"message": "the response failed"}

    def blocks(self, spec: str) -> ReplyBlocks | None:
        """The items to send back; None if they are only text, or if the reasoning is not encrypted."""
        kinds = {item.get("type") for item in self._items}
        if not kinds <= {"reasoning", "message", "function_call"} or kinds <= {"message"}:
            return None
        if any(item["type"] == "reasoning" and not item.get("encrypted_content") for item in self._items):
            return None
        return ReplyBlocks(spec, tuple(self._items), "", tuple(self.calls))


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Split at line feeds only: JSON may contain unescaped U+2028 and similar characters."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.rstrip(b"\r") for line in lines)
    if rest:
        yield rest


def _content(content: object) -> tuple[str, str]:
    """Thought and text of `content`: a string, or (Mistral) a list of parts of both kinds."""
    if isinstance(content, str):
        return "", content
    thought, text = "", ""
    for part in map(_mapping, _list(content)):
        if part.get("type") == "thinking":
            thought += "".join(_content(part.get("thinking")))
        elif isinstance(part.get("text"), str):
            text += part["text"]
    return thought, text


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tokens(value: object) -> int:
    """A number of tokens; 0 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
