"""A local server that speaks streaming Chat Completions and does what a script tells it to.

    with openai_server(["first reply", status(429), text("second", finish="length")]) as server:
        ...                            # an OpenAIModel talks to it through server.endpoint()
        server.requests[0].text        # what it was sent

A script is what to answer: one behaviour, a list of them (one for each request, in order; asking for more is a
500 whose message says so), or a function from the request (`Received`) to a behaviour. A plain `str` is a
behaviour too: that text. Behaviours are made by the functions below: `text`, `chunks`, `status`, `raw`, `cut`,
`error_chunk`, `hang_up`. `pages` is what stands at other paths, for GET and POST: {"/v1/models": {...},
"/props": raw(b"?")}; any other path is a 404, as Ollama words it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from repoagent.llm.providers.endpoint import Endpoint

KEY = "sk-openai-test-0123456789abcdef"
KEY_VARIABLE = "TEST_SERVER_KEY"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass(frozen=True)
class Behaviour:
    """One answer: a status with a body, or (status 200) a stream of events, each after its delay. An event that
    is no `str` or `bytes` is sent as the JSON of a data line."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    events: tuple[Any, ...] = ()
    first_delay: float = 0.0  # seconds before the answer starts
    delay: float = 0.0  # seconds between two events
    cut: bool = False  # break the connection after the last event, without the end of the body


@dataclass(frozen=True)
class Received:
    """A request as it came in."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of each message."""
        return [(message["role"], _text_of(message["content"])) for message in self.body["messages"]]

    @property
    def text(self) -> str:
        """Everything the model would read."""
        return "\n".join(said for _, said in self.turns)


def _text_of(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


Script = str | Behaviour | Sequence[str | Behaviour] | Callable[[Received], str | Behaviour]


def text(
    reply: str,
    *,
    finish: str | None = "stop",
    thinking: str = "",
    usage: Any = USAGE,
    usage_at: str = "last",
    done: bool = True,
    pieces: int = 5,
    first_delay: float = 0.0,
    delay: float = 0.0,
) -> Behaviour:
    """A reply in about `pieces` deltas. `usage` comes in a chunk of its own ("last"), with the finish reason
    ("finish"), in each chunk ("each") or before the text ("first"); None: not at all. `thinking` comes before
    the text, as `reasoning_content`."""
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(thinking, pieces)]
    deltas += [{"content": piece} for piece in _pieces(reply, pieces)]
    events = [chunk({"delta": delta, "finish_reason": None}) for delta in deltas]
    events.append(chunk({"delta": {}, "finish_reason": finish}))
    if usage is not None:
        where = {"finish": [-1], "each": range(len(events)), "first": [0], "last": []}[usage_at]
        for at in where:
            events[at]["usage"] = usage
        if usage_at == "last":
            events.append({**chunk(), "usage": usage})
    return chunks(*events, *(["data: [DONE]\n\n"] if done else []), first_delay=first_delay, delay=delay)


def chunk(*choices: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion.chunk",
        "model": "test-model-0101",
        "choices": [{"index": at, **choice} for at, choice in enumerate(choices)],
    }


def chunks(*events: Any, **options: Any) -> Behaviour:
    return Behaviour(events=events, **options)


def status(
    code: int, message: Any = "", *, error: str = "", param: str | None = None, **headers: str | float
) -> Behaviour:
    """An error: `status(503)`, `status(429, retry_after=3)`, `status(400, "too long", error="its_code")`."""
    body = {
        "error": {"message": message or f"scripted {code}", "type": "test", "param": param, "code": error}
    }
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return raw(json.dumps(body).encode(), code=code, kind="application/json", **named)


def raw(body: bytes, *, code: int = 200, kind: str = "text/plain", **headers: str) -> Behaviour:
    """A body that is no stream."""
    return Behaviour(code, {"content-type": kind, **headers}, body)


def cut(reply: str, *, cleanly: bool = False) -> Behaviour:
    """The connection breaks in mid-reply; `cleanly`: the body ends as it should, but the reply doesn't."""
    return Behaviour(events=text(reply).events[:-3], cut=not cleanly)


def error_chunk(reply: str = "", **error: Any) -> Behaviour:
    """An error that comes as an event in the stream, after `reply`."""
    return Behaviour(events=(*(text(reply).events[:-3] if reply else ()), {"error": error}))


def hang_up() -> Behaviour:
    """The connection breaks before anything was answered."""
    return Behaviour(cut=True)


def _pieces(whole: str, count: int) -> list[str]:
    size = max(1, -(-len(whole) // count))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


class Server:
    """A running server: where it is, and what it was asked."""

    def __init__(self, script: Script, pages: Mapping[str, Any]) -> None:
        self.requests: list[Received] = []
        self.paths: list[str] = []  # asked for besides Chat Completions
        self.warmed = 0  # HEAD requests: connections opened early
        self.connections = 0
        self.pages = pages
        self._script = script
        self._turn = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.owner = self

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def endpoint(
        self, name: str = "testing", *traits: str, path: str = "/v1", local: bool = True, keyed: bool = True
    ) -> Endpoint:
        """Where this server is; the key is that of the environment variable KEY_VARIABLE."""
        variables = (KEY_VARIABLE,) if keyed else ()
        return Endpoint(name, self.url + path, variables, "", local, frozenset(traits))

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

    def page(self, path: str) -> Behaviour:
        self.paths.append(path)
        page = self.pages.get(path.partition("?")[0])
        if page is None:
            return raw(b"404 page not found", code=404)
        return (
            page if isinstance(page, Behaviour) else raw(json.dumps(page).encode(), kind="application/json")
        )


@contextmanager
def openai_server(script: Script = (), pages: Mapping[str, Any] | None = None) -> Iterator[Server]:
    """Run a server for the block, on a free port of 127.0.0.1."""
    server = Server(script, pages or {})
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
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that has gone is nothing to report
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http
    disable_nagle_algorithm = True

    def setup(self) -> None:
        self.server.owner.connections += 1
        super().setup()

    def do_HEAD(self) -> None:
        self.server.owner.warmed += 1
        self.send_response(404)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self._send(self.server.owner.page(self.path))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/chat/completions":
            return self._send(self.server.owner.page(self.path))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self._send(self.server.owner.answer(Received(body, headers)))

    def _send(self, behaviour: Behaviour) -> None:
        time.sleep(behaviour.first_delay)
        try:
            if behaviour.body is not None:
                self._send_body(behaviour, behaviour.body)
            else:
                self._send_events(behaviour)
        except (BrokenPipeError, ConnectionResetError):  # the client has gone: a time-out under test
            self.close_connection = True

    def _send_body(self, behaviour: Behaviour, data: bytes) -> None:
        self.send_response(behaviour.status)
        for name, value in behaviour.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, behaviour: Behaviour) -> None:
        if behaviour.events or not behaviour.cut:
            self.send_response(behaviour.status)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
        for event in behaviour.events:
            data = event if isinstance(event, str | bytes) else f"data: {json.dumps(event)}\n\n"
            data = data.encode() if isinstance(data, str) else data
            if data:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(behaviour.delay)
        if behaviour.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        pass
