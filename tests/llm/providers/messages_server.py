"""A local server that speaks the streaming Messages API and does what a script tells it to.

    with messages_server(["first reply", status(529), text("second", stop="max_tokens")]) as server:
        ...                            # the anthropic SDK talks to it with server.environment set
        server.requests[0].text        # what it was sent

A script is what to answer: one behaviour, a list of them (one for each request, in order; asking for more is
a 500 whose message says so), or a function from the request (`Received`) to a behaviour. A plain `str` is a
behaviour too: that text. Behaviours are made by the functions below: `text`, `status`, `cut`, `error_event`,
`pings`, `page`, `hang_up`. How Bedrock and Vertex AI speak is in cloud_server.py.

As a fixture: `server_with` in tests/llm/conftest.py sets the environment as well. For a subprocess, pass
`{**os.environ, **server.environment}`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-ant-test-0123456789abcdef"


@dataclass(frozen=True)
class Behaviour:
    """One answer: a status with a body, or (status 200) events, each after its delay."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | list[Any] | str | None = None  # JSON, or a page of HTML
    events: tuple[Mapping[str, Any], ...] = ()
    first_delay: float = 0.0  # seconds before the answer starts
    delay: float = 0.0  # seconds between two events
    cut: bool = False  # break the connection after the last event, without the end of the body


@dataclass(frozen=True)
class Received:
    """A request as it came in."""

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
            (message["role"], "".join(block["text"] for block in message["content"]))
            for message in self.body["messages"]
        ]

    @property
    def text(self) -> str:
        """Everything the model would read."""
        return "\n".join([self.system, *(said for _, said in self.turns)])


Script = str | Behaviour | Sequence[str | Behaviour] | Callable[[Received], str | Behaviour]


def text(
    reply: str,
    *,
    stop: str = "end_turn",
    thinking: str = "",
    usage: Mapping[str, int] | None = None,
    report_usage: bool = True,
    first_delay: float = 0.0,
    delay: float = 0.0,
    pieces: int = 5,
    explanation: str | None = None,
    model: str = "claude-test",
) -> Behaviour:
    """A reply in about `pieces` deltas. `stop` is the API's stop reason (max_tokens, refusal, …); `usage`
    names tokens as the API does, by default one for four characters; `thinking` comes in a block before."""
    used = {"input_tokens": 100, "output_tokens": -(-len(reply + thinking) // 4), **(usage or {})}
    events = [_start(used if report_usage else None, model)]
    blocks = [("thinking", thinking)] * bool(thinking) + [("text", reply)] * bool(reply)
    for index, (kind, content) in enumerate(blocks):
        empty = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        size = -(-len(content) // pieces)
        for at in range(0, len(content), size):
            delta = {"type": f"{kind}_delta", kind: content[at : at + size]}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    details = {"type": "refusal", "category": "cyber", "explanation": explanation} if explanation else None
    delta = {"stop_reason": stop, "stop_sequence": None, "stop_details": details}
    last: dict[str, Any] = {"type": "message_delta", "delta": delta}
    if report_usage:
        last["usage"] = {"output_tokens": used["output_tokens"]}
    events += [last, {"type": "message_stop"}]
    return Behaviour(events=tuple(events), first_delay=first_delay, delay=delay)


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
    """The connection breaks in mid-reply; `cleanly`: the body ends as it should, but the message doesn't."""
    whole = text(reply)
    return Behaviour(events=whole.events[:-3], cut=not cleanly)


def error_event(reply: str = "", *, kind: str = "overloaded_error", message: str = "Overloaded") -> Behaviour:
    """An error that comes as an event in the stream, after `reply`."""
    event = {"type": "error", "error": {"type": kind, "message": message}}
    return Behaviour(events=(*text(reply).events[:-3], event))


def pings(number: int, *, delay: float, then: Behaviour | None = None) -> Behaviour:
    """Only pings, one after each `delay`, in a message that has begun; `then` what comes after them."""
    rest = then.events[1:] if then else ()
    return Behaviour(events=(_start(None, "claude-test"), *({"type": "ping"},) * number, *rest), delay=delay)


def page(html: str = "<html>please log in</html>") -> Behaviour:
    """What a captive portal answers."""
    return Behaviour(body=html)


def hang_up() -> Behaviour:
    """The connection breaks before anything was answered."""
    return Behaviour(cut=True)


def _start(usage: Mapping[str, int] | None, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage is not None:
        message["usage"] = {**usage, "output_tokens": 1}
    return {"type": "message_start", "message": message}


class Server:
    """A running server: where it is, and what it was asked."""

    def __init__(self, script: Script, handler: type[Handler]) -> None:
        self.requests: list[Received] = []
        self.count: int | None = None  # what it counts any prompt as; None for a server that can't
        self.warmed = 0  # HEAD requests: connections opened early
        self.connections = 0
        self._script = script
        self._turn = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), handler)
        self._http.owner = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """What to set for the SDK to find it."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}

    def answer(self, received: Received) -> Behaviour:
        with self._turn:
            number = len(self.requests)
            self.requests.append(received)
            script = self._script
            if callable(script):
                made = script(received)
            elif isinstance(script, str | Behaviour):
                made = script
            elif number < len(script):
                made = script[number]
            else:
                made = status(500, f"the script has {len(script)} answer(s), this is request {number + 1}")
        return text(made) if isinstance(made, str) else made


@contextmanager
def messages_server(script: Script, handler: type[Handler] | None = None) -> Iterator[Server]:
    """Run a server for the block, on a free port of 127.0.0.1; `handler` is the platform's dialect."""
    server = Server(script, handler or Handler)
    thread = threading.Thread(target=server._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server._http.shutdown()
        server._http.server_close()
        thread.join()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client keeps its idle connections open
    owner: Server

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that has gone is nothing to report
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Anthropic's own API; a subclass says where its requests go and how it frames events."""

    protocol_version = "HTTP/1.1"
    server: _Http
    disable_nagle_algorithm = True
    content_type = "text/event-stream"

    def is_message(self) -> bool:
        return self.path == "/v1/messages"

    def is_count(self) -> bool:
        return self.path == "/v1/messages/count_tokens"

    def special(self) -> Behaviour | None:
        """The answer to what is no request for a message."""
        count = self.server.owner.count
        return Behaviour(body={"input_tokens": count}) if self.is_count() and count is not None else None

    def frame(self, event: Mapping[str, Any]) -> bytes:
        if "raw" in event:  # what is no event at all
            return bytes(event["raw"])
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def setup(self) -> None:
        self.server.owner.connections += 1
        super().setup()

    def do_HEAD(self) -> None:
        self.server.owner.warmed += 1
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        owner = self.server.owner
        data = self.rfile.read(int(self.headers["content-length"]))
        if (special := self.special()) is not None:
            return self.send(special)
        if not self.is_message():
            return self.send(status(404, f"no such path: {self.path}"))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.send(owner.answer(Received(json.loads(data), headers, self.path)))

    def send(self, behaviour: Behaviour) -> None:
        time.sleep(behaviour.first_delay)
        try:
            if behaviour.body is not None:
                self._send_body(behaviour, behaviour.body)
            else:
                self._send_events(behaviour)
        except (BrokenPipeError, ConnectionResetError):  # the client has gone: a time-out under test
            self.close_connection = True

    def _send_body(self, behaviour: Behaviour, body: object) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(behaviour.status)
        for name, value in behaviour.headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, behaviour: Behaviour) -> None:
        if behaviour.events:
            self.send_response(behaviour.status)
            self.send_header("content-type", self.content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        for event in behaviour.events:
            data = self.frame(event)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(behaviour.delay)
        if behaviour.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        pass
