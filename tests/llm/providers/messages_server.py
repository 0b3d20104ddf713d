"""A local server with the streaming Messages API, controlled by a script.

    with messages_server(["first reply", status(529), text("second", stop="max_tokens")]) as server:
        ...                            # the anthropic SDK talks to it with server.environment set
        server.requests[0].text        # the received prompt

Scripts are those of streaming_server.py; the functions below create behaviours: `text`, `status`, `cut`, `error_event`,
`page`, and `hang_up`. The dialects of Bedrock and Vertex AI are in cloud_server.py.

As a fixture: `server_with` in tests/llm/conftest.py sets the environment as well. For a subprocess, pass
`{**os.environ, **server.environment}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tests.llm.providers import streaming_server
from tests.llm.providers.streaming_server import Behaviour, hang_up, running

__all__ = [
    "KEY", "Behaviour", "Handler", "Received", "Script", "Server", "blocks", "cut", "error_event", "hang_up", "messages_server", "page",
    "status", "text",
]  # fmt: skip

KEY = "sk-ant-test-0123456789abcdef"


@dataclass(frozen=True)
class Received:
    """A received request."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]
    path: str

    @property
    def system(self) -> str:
        return "".join(block["text"] for block in self.body.get("system", ()))

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of each message."""
        return [
            (message["role"], "".join(map(_text_of, message["content"]))) for message in self.body["messages"]
        ]

    @property
    def text(self) -> str:
        """The whole text that the model would read."""
        return "\n".join([self.system, *(said for _, said in self.turns)])


def _text_of(block: Mapping[str, Any]) -> str:
    """A block other than thinking as text: text, a call, a result."""
    if block["type"] == "tool_use":
        return f"{block['name']}({json.dumps(block['input'])})"
    if block["type"] == "tool_result":
        return "".join(map(_text_of, block["content"]))
    return str(block.get("text", ""))


Script = streaming_server.Script[Received]


def text(
    reply: str,
    *,
    stop: str = "end_turn",
    thinking: str = "",
    usage: Mapping[str, int] | None = None,
    report_usage: bool = True,
    first_delay: float = 0.0,
    delay: float = 0.0,
    explanation: str | None = None,
) -> Behaviour:
    """A reply in about five deltas. `stop` is the API's stop reason (max_tokens, refusal, …); `usage`
    names tokens as the API does, by default one for four characters; `thinking` comes in a block before."""
    content = [{"type": "thinking", "thinking": thinking}] * bool(thinking) + [
        {"type": "text", "text": reply}
    ] * bool(reply)
    used = {"output_tokens": -(-len(reply + thinking) // 4), **(usage or {})}
    *events, last, end = blocks(*content, stop=stop, usage=used if report_usage else None).events
    details = {"type": "refusal", "category": "cyber", "explanation": explanation} if explanation else None
    last = {**last, "delta": {**last["delta"], "stop_details": details}}
    return Behaviour(events=(*events, last, end), first_delay=first_delay, delay=delay)


def blocks(
    *content: Mapping[str, Any],
    stop: str = "",
    at: str | None = None,
    usage: Mapping[str, int] | None = MappingProxyType({}),
) -> Behaviour:
    """A reply of such blocks as the API describes them, each in several deltas. `stop` is the stop reason, `at` the
    stop sequence that was hit; `usage` names tokens as the API does, None: it reports none."""
    used = None if usage is None else {"input_tokens": 100, "output_tokens": 10, **usage}
    events = [_start(used)]
    for index, block in enumerate(content):
        deltas: list[dict[str, Any]] = []
        empty = dict(block)
        if block["type"] in {"text", "thinking"}:
            key = block["type"]
            empty = {"type": key, key: "", **({"signature": ""} if key == "thinking" else {})}
            deltas += [{"type": f"{key}_delta", key: piece} for piece in _pieces(block[key])]
            if "signature" in block:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
        elif block["type"] == "tool_use":
            empty = {**block, "input": {}}
            given = block["input"]
            written = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(written)]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    calls = any(block["type"] == "tool_use" for block in content)
    reason = {"stop_reason": stop or ("tool_use" if calls else "end_turn"), "stop_sequence": at}
    last: dict[str, Any] = {"type": "message_delta", "delta": reason}
    if used is not None:
        last["usage"] = {"output_tokens": used["output_tokens"]}
    return Behaviour(events=(*events, last, {"type": "message_stop"}))


def _pieces(whole: str) -> list[str]:
    size = max(1, -(-len(whole) // 5))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def status(code: int, message: str = "", *, kind: str = "", **headers: str | float) -> Behaviour:
    """An error: `status(529)`, `status(429, retry_after=3)`, `status(400, "prompt is too long: 9 > 8")`."""
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    error: dict[str, Any] = {"type": kinds.get(code, "api_error"), "message": message or f"scripted {code}"}
    if kind:
        error["details"] = {"error_code": kind}
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return Behaviour(code, named, {"type": "error", "error": error})


def cut(reply: str, *, cleanly: bool = False) -> Behaviour:
    """The connection breaks during the reply; `cleanly`: the body ends properly, but the message does not."""
    return Behaviour(events=text(reply).events[:-3], cut=not cleanly)


def error_event(reply: str = "", *, kind: str = "overloaded_error", message: str = "Overloaded") -> Behaviour:
    """An error as an event in the stream, after `reply`."""
    event = {"type": "error", "error": {"type": kind, "message": message}}
    return Behaviour(events=(*text(reply).events[:-3], event))


def page(html: str = "<html>please log in</html>") -> Behaviour:
    """The response of a captive portal."""
    return Behaviour(body=html)


def _start(usage: Mapping[str, int] | None) -> dict[str, Any]:
    head = {"id": "msg_test", "type": "message", "role": "assistant", "model": "claude-test"}
    message: dict[str, Any] = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
    if usage is not None:
        message["usage"] = {**usage, "output_tokens": 1}
    return {"type": "message_start", "message": message}


class Server(streaming_server.Server[Received]):
    """A running server: its address, and the received requests."""

    def __init__(self, script: Script, handler: type[Handler]) -> None:
        super().__init__(script, handler, text, status)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that direct the SDK to it."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}


def messages_server(script: Script, handler: type[Handler] | None = None) -> AbstractContextManager[Server]:
    """A server for the block; `handler` is the platform's dialect."""
    return running(Server(script, handler or Handler))


class Handler(streaming_server.Handler):
    """Anthropic's API; a subclass defines the path of its requests and the framing of events."""

    def is_message(self) -> bool:
        return self.path == "/v1/messages"

    def special(self) -> Behaviour | None:
        """The response to any other request."""
        return None

    def frame(self, event: Mapping[str, Any]) -> bytes:
        if "raw" in event:  # not an event
            return bytes(event["raw"])
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it so
        owner = self.server.owner
        data = self.rfile.read(int(self.headers["content-length"]))
        if (special := self.special()) is not None:
            return self.send(special)
        if not self.is_message():
            return self.send(status(404, f"no such path: {self.path}"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.send(owner.answer(Received(json.loads(data), headers, self.path)))
