"""A local server with the streaming Messages API, controlled by a script (see streaming_server.py).

with messages_server(["first reply", status(529), text("second", stop="max_tokens")]) as server:
    ...                            # the anthropic SDK talks to it with server.environment set
    server.requests[0].text        # the received prompt
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tests.llm.providers import streaming_server
from tests.llm.providers.streaming_server import Behaviour, Received, Script, pieces, running

__all__ = [
    "KEY", "Behaviour", "Received", "Script", "Server", "blocks", "cut", "error_event", "messages_server", "status", "text"
]  # fmt: skip

KEY = "sk-ant-test-0123456789abcdef"
DEFAULT: Mapping[str, int] = MappingProxyType({})
PORTAL = Behaviour(body="<html>please log in</html>")  # instead of the API


def text(
    reply: str,
    *,
    stop: str = "",
    thinking: str = "",
    usage: Mapping[str, int] | None = DEFAULT,
    **delays: float,
) -> Behaviour:
    """A reply in about five deltas, after `thinking` in a block of its own. It is billed with one token for four
    characters if `usage` does not say otherwise."""
    content = [{"type": "thinking", "thinking": thinking}] * bool(thinking)
    content += [{"type": "text", "text": reply}] * bool(reply)
    counts = None if usage is None else {"output_tokens": -(-len(reply + thinking) // 4), **usage}
    return replace(blocks(*content, stop=stop, usage=counts), **delays)


def blocks(
    *content: Mapping[str, Any], stop: str = "", usage: Mapping[str, int] | None = DEFAULT
) -> Behaviour:
    """A reply of such blocks as the API describes them, each in several deltas. `stop` is the API's stop reason;
    `usage` names tokens as the API does, None: it reports none."""
    used = None if usage is None else {"input_tokens": 100, "output_tokens": 10, **usage}
    head = {"id": "msg_test", "type": "message", "role": "assistant", "model": "claude-test"}
    message: dict[str, Any] = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
    if used is not None:
        message["usage"] = {**used, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(content):
        deltas: list[dict[str, Any]] = []
        empty = dict(block)
        key = block["type"]
        if key in {"text", "thinking"}:
            empty = {"type": key, key: "", **({"signature": ""} if key == "thinking" else {})}
            deltas += [{"type": f"{key}_delta", key: piece} for piece in pieces(block[key])]
            if "signature" in block:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif key == "tool_use":
            empty["input"] = {}
            given = block["input"]
            written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(written)]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = stop or ("tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn")
    end = {"stop_reason": reason, "stop_sequence": None, "stop_details": None}
    last: dict[str, Any] = {"type": "message_delta", "delta": end}
    if used is not None:
        last["usage"] = {"output_tokens": used["output_tokens"]}
    return Behaviour(events=(*events, last, {"type": "message_stop"}))


KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip


def status(code: int, message: str = "", *, kind: str = "", **headers: str | float) -> Behaviour:
    """An error: `status(529)`, `status(429, retry_after=3)`, `status(400, "prompt is too long: 9 > 8")`."""
    error: dict[str, Any] = {"type": KINDS.get(code, "api_error"), "message": message or f"scripted {code}"}
    if kind:
        error["details"] = {"error_code": kind}
    return Behaviour(code, headers, {"type": "error", "error": error})


def cut(reply: str, *, cleanly: bool = False) -> Behaviour:
    """The connection breaks during the reply; `cleanly`: the body ends properly, but the message does not."""
    return Behaviour(events=text(reply).events[:-3], cut=not cleanly)


def error_event(reply: str = "", *, kind: str = "overloaded_error", message: str = "Overloaded") -> Behaviour:
    """An error as an event in the stream, after `reply`."""
    event = {"type": "error", "error": {"type": kind, "message": message}}
    return Behaviour(events=(*text(reply).events[:-3], event))


class Server(streaming_server.Server):
    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that direct the SDK to it."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}


class Handler(streaming_server.Handler):
    """Anthropic's API; a subclass defines the path of its requests and the framing of events."""

    text = staticmethod(text)

    def is_message(self) -> bool:
        return self.path == "/v1/messages"

    def other(self) -> Behaviour:
        return status(404, f"no such path: {self.path}")

    def frame(self, event: Mapping[str, Any]) -> bytes:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def messages_server(script: Script, handler: type[Handler] = Handler) -> AbstractContextManager[Server]:
    """A server for the block; `handler` is the platform's dialect."""
    return running(Server(script, handler))
