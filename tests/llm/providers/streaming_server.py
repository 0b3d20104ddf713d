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
from typing import Any, Generic, TypeVar


@dataclass(frozen=True)
class Behaviour:
    """One answer: a status with a body, or (status 200) events, each after its delay."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | list[Any] | str | bytes | None = (
        None  # JSON, a page of HTML, or bytes as they are
    )
    events: tuple[Any, ...] = ()
    first_delay: float = 0.0  # seconds before the answer starts
    delay: float = 0.0  # seconds between two events
    cut: bool = False  # break the connection after the last event, without the end of the body


R = TypeVar("R")  # a request as the dialect shows it
S = TypeVar("S", bound="Server[Any]")
Script = str | Behaviour | Sequence[str | Behaviour] | Callable[[R], str | Behaviour]


def hang_up() -> Behaviour:
    """The connection breaks before any response."""
    return Behaviour(cut=True)


class Server(Generic[R]):
    """A running server: its address, and the received requests."""

    def __init__(
        self,
        script: Script[R],
        handler: type[Handler],
        text: Callable[[str], Behaviour],
        status: Callable[[int, str], Behaviour],
    ) -> None:
        self.requests: list[R] = []
        self.warmed = 0  # HEAD requests: connections opened early
        self.connections = 0
        self._script, self._text, self._status = script, text, status
        self._turn = threading.Lock()
        self.http = Http(("127.0.0.1", 0), handler)
        self.http.owner = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def answer(self, received: R) -> Behaviour:
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
                said = f"the script has {len(script)} answer(s), this is request {number + 1}"
                made = self._status(500, said)
        return self._text(made) if isinstance(made, str) else made


@contextmanager
def running(server: S) -> Iterator[S]:
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
    """The common part of all dialects; a subclass defines the path of its requests and the framing of events."""

    protocol_version = "HTTP/1.1"
    server: Http
    disable_nagle_algorithm = True
    content_type = "text/event-stream"

    def frame(self, event: Any) -> bytes:
        raise NotImplementedError

    def setup(self) -> None:
        self.server.owner.connections += 1
        super().setup()

    def do_HEAD(self) -> None:
        self.server.owner.warmed += 1
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def send(self, behaviour: Behaviour) -> None:
        time.sleep(behaviour.first_delay)
        try:
            if behaviour.body is not None:
                self._send_body(behaviour, behaviour.body)
            else:
                self._send_events(behaviour)
        except (BrokenPipeError, ConnectionResetError):  # the client has disconnected: a time-out under test
            self.close_connection = True

    def _send_body(self, behaviour: Behaviour, body: object) -> None:
        self.send_response(behaviour.status)
        for name, value in behaviour.headers.items():
            self.send_header(name, value)
        if isinstance(body, bytes):
            data = body
        else:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_header("content-type", "text/html" if isinstance(body, str) else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, behaviour: Behaviour) -> None:
        if behaviour.events or not behaviour.cut:
            self.send_response(behaviour.status)
            for name, value in behaviour.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", self.content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        for event in behaviour.events:
            data = self.frame(event)
            if data:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(behaviour.delay)
        if behaviour.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        pass
