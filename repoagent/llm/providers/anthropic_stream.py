"""A streamed reply of the Messages API, as far as it has come. Gateways leave fields out, or fill them with zero.

What the Anthropic API says when something went wrong, for the sentences of failures.py.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from repoagent.errors import ModelError
from repoagent.llm.client import call_as_text
from repoagent.llm.model import Blocks, Reply, Request, Schema, Stop, Usage
from repoagent.llm.providers.errors import (
    MODEL_ADVICE,
    Rejection,
    brief,
    rejection,
    retry_after,
    unreachable,
)
from repoagent.llm.usage import estimate, estimate_tokens

if TYPE_CHECKING:
    import anthropic
    import httpx2
    from anthropic.types import RawMessageStreamEvent

_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")

# A pause asks to be called again; a full context is a cut too. What is not named here is an end.
_STOPS: dict[str, Stop] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refusal",
}


_KNOWN = {"text", "thinking", "redacted_thinking", "tool_use"}


class StreamedReply:
    """What has come of a reply so far. `tools` are those that were offered."""

    def __init__(self, tools: Sequence[Schema] = ()) -> None:
        self.ended = False
        self.garbled = False  # a call of a tool came whole and is no JSON
        self.heard = time.monotonic()  # when the last event came that was no ping
        self._model = ""
        self._stop = ""
        self._stopped_at = ""
        self._tools = tools
        self._blocks: dict[int, dict[str, Any]] = {}  # as they will be sent back
        self._calls: list[tuple[str, str]] = []
        self._explanation = ""
        self._pieces: list[str] = []
        self._thought: list[str] = []  # no part of the reply, but paid for
        self._counts: dict[str, int] = {}
        self._last_output: int | None = None  # what was counted at the end: at the start it is a guess

    def take(self, event: RawMessageStreamEvent) -> str:
        """The text that `event` adds to the reply, mostly none."""
        self.heard = time.monotonic()
        if event.type == "message_start":
            self._model = getattr(event.message, "model", None) or ""
            self._count(getattr(event.message, "usage", None))
        elif event.type == "content_block_start":
            self._blocks[event.index] = event.content_block.model_dump(mode="json", exclude_none=True)
            if event.content_block.type == "text":
                return self._said(event.content_block.text)
        elif event.type == "content_block_delta":
            return self._more(self._blocks.setdefault(event.index, {}), event.delta)
        elif event.type == "content_block_stop":
            return self._called(self._blocks.get(event.index, {}))
        elif event.type == "message_delta":
            self._end(event.delta)
            self._last_output = self._count(getattr(event, "usage", None))
        elif event.type == "message_stop":
            self.ended = True
        return ""

    def _more(self, block: dict[str, Any], delta: Any) -> str:
        """Take a delta of a block in; the text that it adds to the reply."""
        if delta.type == "text_delta":
            block["text"] = block.get("text", "") + (delta.text or "")
            return self._said(delta.text)
        if delta.type == "thinking_delta":
            block["thinking"] = block.get("thinking", "") + (delta.thinking or "")
            self._thought.append(delta.thinking or "")
        elif delta.type == "signature_delta":
            block["signature"] = delta.signature
        elif delta.type == "input_json_delta":
            block["json"] = block.get("json", "") + (delta.partial_json or "")
        else:
            block["type"] = delta.type  # a block with more in it than is known here: not sent back
        return ""

    def _called(self, block: dict[str, Any]) -> str:
        """A call of a tool that is complete, as a tag on a line of its own."""
        if block.get("type") != "tool_use":
            return ""
        try:
            block["input"] = json.loads(block.pop("json", "") or "{}") or block.get("input") or {}
        except json.JSONDecodeError:
            self.garbled = True
            return ""
        tag, added = call_as_text("".join(self._pieces), self._tools, block["name"], block["input"])
        self._calls.append((block["id"], tag))
        return self._said(added)

    def _said(self, text: str | None) -> str:
        self._pieces.append(text or "")
        return text or ""

    def _end(self, delta: Any) -> None:
        self._stop = delta.stop_reason or self._stop
        self._stopped_at = getattr(delta, "stop_sequence", None) or ""
        self.ended = self.ended or bool(self._stop)  # not every gateway sends the event that should follow
        details = delta.stop_details
        if details is not None:
            category = getattr(details, "category", None)
            named = f"its category of refusals: {category}" if category else ""
            self._explanation = getattr(details, "explanation", None) or named

    def _count(self, usage: object) -> int | None:
        """The output that `usage` counts. All counts are cumulative: a later zero is none."""
        said = {name: getattr(usage, name, None) for name in (*_INPUT, "output_tokens")}
        for name, count in said.items():
            if isinstance(count, int):
                self._counts[name] = max(count, self._counts.get(name, 0))
        output = said["output_tokens"]
        return output if isinstance(output, int) else None

    def usage(self, request: Request) -> Usage:
        """What the attempt has used; where the server has not said so (yet), an estimate."""
        counts = self._counts
        text = "".join(self._pieces) + "".join(self._thought)
        if not counts and not text:
            return Usage()
        output = counts.get("output_tokens", 0)
        input_known = any(counts.get(name) for name in _INPUT)
        output_known = self.ended and self._last_output is not None and bool(self._last_output or not text)
        return Usage(
            counts.get("input_tokens", 0) if input_known else estimate(request).input,
            output if output_known else max(output, estimate_tokens(text)),
            counts.get("cache_read_input_tokens", 0),
            counts.get("cache_creation_input_tokens", 0),
            estimated=not (input_known and output_known),
        )

    def reply(self, request: Request, platform: str, spec: str, prefix: str = "") -> Reply:
        """The reply of the model `spec` to what has the hash `prefix`."""
        text = "".join(self._pieces)
        stop = _STOPS.get(self._stop, "end")
        if stop == "refusal" and self._explanation:
            text = self._explanation
        blocks = self._sent_back(spec, prefix) if stop == "end" else None
        if self._stop == "stop_sequence" and self._stopped_at in request.stop:
            text, blocks = text + self._stopped_at, None  # read as what it is: the beginning of an imitation
        model = f"{platform}/{self._model}" if self._model else spec
        return Reply(text, stop, self.usage(request), model, blocks)

    def _sent_back(self, spec: str, prefix: str) -> Blocks | None:
        """The blocks, where they say more than the text; none where there is one that may not be sent back."""
        kinds = {block.get("type") for block in self._blocks.values()}
        thought = {"thinking", "redacted_thinking"} & kinds
        if not kinds <= _KNOWN or kinds <= {"text"} or (thought and not self._signed()):
            return None
        items = tuple(block for _, block in sorted(self._blocks.items()) if not _is_blank(block))
        return Blocks(spec, items, prefix if thought else "", tuple(self._calls))

    def _signed(self) -> bool:
        """Whether all thinking has the signature without which it is refused; some gateways leave it out."""
        return all(
            block.get("signature") for block in self._blocks.values() if block.get("type") == "thinking"
        )


def _is_blank(block: Mapping[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip()  # the API rejects those


@contextmanager
def stop_when_silent(response: httpx2.Response, received: StreamedReply, seconds: float) -> Iterator[None]:
    """Break the connection off when nothing but pings has come for `seconds`: the SDK keeps those to itself, so
    without this a server that does no more than ping is waited for without end."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(max(0.0, received.heard + seconds - time.monotonic())):
            if time.monotonic() >= received.heard + seconds:
                _hang_up(response)
                break

    received.heard = time.monotonic()
    threading.Thread(target=watch, name="anthropic-mute", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _hang_up(response: httpx2.Response) -> None:
    """Close under the reader, which then finds the reply cut; past TLS, whose own end would wait for the server."""
    stream = response.extensions.get("network_stream")
    wire = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(wire, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(wire, socket.SHUT_RDWR)


# An error that comes inside a stream has no status of its own.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_TOO_LONG = ("prompt is too long", "context limit", "context window", "maximum context")
_SPENT = ("contract_spend_limit_reached", "enforced_spend_limit_reached")  # a 429 that waiting does not end


def no_key(detail: str = "") -> ModelError:
    why = f" ({detail})" if detail else ""
    return ModelError(f"no key for Anthropic's models{why}. {MODEL_ADVICE}")


def rejected(error: anthropic.APIStatusError, spec: str, usage: Usage, secrets: list[str]) -> ModelError:
    """For a status of 400 and above, or an error event in a stream; `usage` is what the attempt has cost."""
    in_stream = error.status_code < 400
    status = _STATUS.get(error.type or "", 500) if in_stream else error.status_code
    said = brief(error.api_message or error.message, secrets)
    headers = {} if in_stream else error.response.headers
    return rejection(
        Rejection(
            status,
            said,
            error.request.url.host,
            spec,
            key_advice="set a valid one as ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN",
            name_advice=(
                "check the name, for example anthropic/claude-sonnet-5-5, and ANTHROPIC_BASE_URL if you set it"
            ),
            too_long=status == 400 and any(mark in said.lower() for mark in _TOO_LONG),
            spent=error.error_code in _SPENT,
            passes={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
            wait=retry_after(headers),
            usage=usage,
        )
    )


def no_connection(error: anthropic.APIConnectionError, read_seconds: float, secrets: list[str]) -> ModelError:
    """For a request that got no answer."""
    import anthropic

    return unreachable(
        error,
        error.request.url.host or str(error.request.url),
        read_seconds,
        secrets,
        timed_out=isinstance(error, anthropic.APITimeoutError),
        settings="ANTHROPIC_BASE_URL and the key",
    )


def not_messages_api(error: anthropic.AnthropicError, spec: str, secrets: list[str]) -> ModelError:
    """For an answer that is none of the Messages API."""
    return ModelError(f"the server for {spec} does not speak the Messages API ({brief(str(error), secrets)})")
