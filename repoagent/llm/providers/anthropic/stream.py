"""A streamed reply of the Messages API, as far as it has come. Gateways leave fields out, or fill them with zero."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from repoagent.llm.model import Reply, Request, Stop, Usage
from repoagent.llm.usage import estimate, estimate_tokens

if TYPE_CHECKING:
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


class Received:
    """What has come of a reply so far."""

    def __init__(self) -> None:
        self.ended = False
        self.heard = time.monotonic()  # when the last event came that was no ping
        self._model = ""
        self._stop = ""
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
        elif event.type == "content_block_start" and event.content_block.type == "text":
            return self._said(event.content_block.text)
        elif event.type == "content_block_delta":
            if event.delta.type == "text_delta":
                return self._said(event.delta.text)
            if event.delta.type == "thinking_delta":
                self._thought.append(event.delta.thinking or "")
        elif event.type == "message_delta":
            self._end(event.delta)
            self._last_output = self._count(getattr(event, "usage", None))
        elif event.type == "message_stop":
            self.ended = True
        return ""

    def _said(self, text: str | None) -> str:
        self._pieces.append(text or "")
        return text or ""

    def _end(self, delta: Any) -> None:
        self._stop = delta.stop_reason or self._stop
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

    def reply(self, request: Request, platform: str, spec: str) -> Reply:
        text = "".join(self._pieces)
        stop = _STOPS.get(self._stop, "end")
        if stop == "refusal" and self._explanation:
            text = self._explanation
        return Reply(text, stop, self.usage(request), f"{platform}/{self._model}" if self._model else spec)


@contextmanager
def ended_when_mute(response: httpx2.Response, received: Received, seconds: float) -> Iterator[None]:
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
