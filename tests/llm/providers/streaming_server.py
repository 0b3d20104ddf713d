"""A local HTTP server that streams the responses of a script; the base of the servers for each protocol.

A script is one behaviour, a list of them (one for each request, in order; a further request is a 500), or a function
from the request to a behaviour. A plain `str` is a behaviour, too: that text in the format of the protocol.
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


@dataclass(frozen=True)
class Behaviour:
    """One answer: a status with a body, or (status 200) events, each after its delay."""

    status: int = 200
    headers: Mapping[str, str | float] = field(default_factory=dict)  # a name may have _ for -
    body: Any = None  # JSON, a page of HTML, or bytes as they are
    events: tuple[Any, ...] = ()  # bytes, or what the protocol frames
    first_delay: float = 0.0  # seconds before the answer starts
    delay: float = 0.0  # seconds between two events
    cut: bool = False  # break the connection after the last event, without the end of the body


@dataclass(frozen=True)
class Received:
    """A received request."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]
    path: str

    @property
    def system(self) -> str:
        return _text_of(self.body.get("system", ""))

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of each message."""
        return [(message["role"], _text_of(message["content"])) for message in self.body["messages"]]

    @property
    def text(self) -> str:
        """The whole text that the model would read."""
        return "\n".join([self.system, *(said for _, said in self.turns)])


def _text_of(content: str | Sequence[Mapping[str, Any]]) -> str:
    """The blocks other than thinking as text: texts, calls, results."""
    if isinstance(content, str):
        return content
    text = ""
    for block in content:
        if block["type"] == "tool_use":
            text += f"{block['name']}({json.dumps(block['input'])})"
        elif block["type"] == "tool_result":
            text += _text_of(block["content"])
        else:
            text += block.get("text", "")
    return text


Script = str | Behaviour | Sequence[str | Behaviour] | Callable[[Received], str | Behaviour]


def pieces(whole: str, count: int = 5) -> list[str]:
    size = max(1, -(-len(whole) // count))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


class Server:
    """A running server: its address, and the received requests."""

    def __init__(self, script: Script, handler: type[Handler]) -> None:
        self.requests: list[Received] = []
        self.paths: list[str] = []  # of other requests
        self.warmed = 0  # HEAD requests: connections opened early
        self.connections = 0
        self._script = script
        self._turn = threading.Lock()
        self.http = Http(("127.0.0.1", 0), handler)
        self.http.owner = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def answer(self, received: Received) -> str | Behaviour:
        with self._turn:
            number = len(self.requests)
            self.requests.append(received)
            script = self._script
            if callable(script):
                return script(received)
            if isinstance(script, str | Behaviour):
                return script
            if number < len(script):
                return script[number]
            message = f"the script has {len(script)} answer(s), this is request {number + 1}"
            return Behaviour(500, body={"error": {"message": message}})


@contextmanager
def running(server: Any) -> Iterator[Any]:
    """The server runs for the block, on a free port of 127.0.0.1."""
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


class Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a client keeps its idle connections open
    owner: Any

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # ignore a client that has disconnected
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """The common part of all protocols. A subclass defines `is_message`, the response to any `other` request, the
    `frame` of an event, and the reply with a `text`."""

    protocol_version = "HTTP/1.1"
    server: Http
    disable_nagle_algorithm = True
    content_type = "text/event-stream"

    def setup(self) -> None:
        self.server.owner.connections += 1
        super().setup()

    def do_HEAD(self) -> None:
        self.server.owner.warmed += 1
        self._begin(Behaviour(404), content_length=0)

    def do_GET(self) -> None:
        self.server.owner.paths.append(self.path)
        self.send(self.other())

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        if not self.is_message():
            self.do_GET()
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.owner.answer(Received(json.loads(data), headers, self.path))
        self.send(self.text(answer) if isinstance(answer, str) else answer)

    def send(self, behaviour: Behaviour) -> None:
        time.sleep(behaviour.first_delay)
        try:
            if behaviour.body is not None:
                self._send_body(behaviour, behaviour.body)
            else:
                self._send_events(behaviour)
        except (BrokenPipeError, ConnectionResetError):  # the client has disconnected: a time-out under test
            self.close_connection = True

    def _begin(self, behaviour: Behaviour, **own: object) -> None:
        self.send_response(behaviour.status)
        for name, value in {**own, **behaviour.headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def _send_body(self, behaviour: Behaviour, body: Any) -> None:
        kind = "text/html" if isinstance(body, str) else "application/json"
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        data = text.encode() if isinstance(text, str) else text
        self._begin(behaviour, content_type=kind, content_length=len(data))
        self.wfile.write(data)

    def _send_events(self, behaviour: Behaviour) -> None:
        if behaviour.events or not behaviour.cut:
            self._begin(behaviour, content_type=self.content_type, transfer_encoding="chunked")
        for event in behaviour.events:
            if data := event if isinstance(event, bytes) else self.frame(event):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(behaviour.delay)
        if behaviour.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        pass
