"""A local server with streaming Chat Completions, controlled by a script.

    with openai_server(["first reply", status(429), text("second", finish="length")]) as server:
        ...                            # an OpenAIModel talks to it through server.endpoint()
        server.requests[0].text        # the received prompt

Scripts are those of streaming_server.py; the functions below create behaviours: `text`, `chunks`, `status`, `raw`,
`cut`, `error_chunk`, and `hang_up`. An event other than `str` or `bytes` is sent as the JSON of a data line. `pages`
has the content of other paths, for GET and POST: {"/v1/models": {...}, "/props": raw(b"?")}; any other path is a 404
in the format of Ollama.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from repoagent.llm.providers.endpoints import Endpoint
from tests.llm.providers import streaming_server
from tests.llm.providers.streaming_server import Behaviour, hang_up, running

__all__ = [
    "KEY", "KEY_VARIABLE", "USAGE", "Behaviour", "Received", "Script", "Server", "chunk", "chunks", "cut", "error_chunk",
    "hang_up", "openai_server", "raw", "status", "text",
]  # fmt: skip

KEY = "sk-openai-test-0123456789abcdef"
KEY_VARIABLE = "TEST_SERVER_KEY"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass(frozen=True)
class Received:
    """A received request."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def turns(self) -> list[tuple[str, str]]:
        """(role, text) of each message."""
        return [(message["role"], _text_of(message["content"])) for message in self.body["messages"]]

    @property
    def text(self) -> str:
        """The whole text that the model would read."""
        return "\n".join(said for _, said in self.turns)


def _text_of(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


Script = streaming_server.Script[Received]


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
    """A body that is not a stream."""
    return Behaviour(code, {"content-type": kind, **headers}, body)


def cut(reply: str, *, cleanly: bool = False) -> Behaviour:
    """The connection breaks during the reply; `cleanly`: the body ends properly, but the reply does not."""
    return Behaviour(events=text(reply).events[:-3], cut=not cleanly)


def error_chunk(reply: str = "", **error: Any) -> Behaviour:
    """An error as an event in the stream, after `reply`."""
    return Behaviour(events=(*(text(reply).events[:-3] if reply else ()), {"error": error}))


def _pieces(whole: str, count: int) -> list[str]:
    size = max(1, -(-len(whole) // count))
    return [whole[at : at + size] for at in range(0, len(whole), size)]


class Server(streaming_server.Server[Received]):
    """A running server: its address, and the received requests."""

    def __init__(self, script: Script, pages: Mapping[str, Any]) -> None:
        super().__init__(script, _Handler, text, status)
        self.paths: list[str] = []  # of requests other than Chat Completions
        self.pages = pages
        self.responds = False  # whether it has the Responses API, too

    def endpoint(
        self, name: str = "testing", *traits: str, path: str = "/v1", local: bool = True, keyed: bool = True
    ) -> Endpoint:
        """The endpoint of this server; its key is in the environment variable KEY_VARIABLE."""
        variables = (KEY_VARIABLE,) if keyed else ()
        return Endpoint(name, self.url + path, variables, local, frozenset(traits))

    def page(self, path: str) -> Behaviour:
        self.paths.append(path)
        page = self.pages.get(path.partition("?")[0])
        if page is None:
            return raw(b"404 page not found", code=404)
        return (
            page if isinstance(page, Behaviour) else raw(json.dumps(page).encode(), kind="application/json")
        )


def openai_server(
    script: Script = (), pages: Mapping[str, Any] | None = None
) -> AbstractContextManager[Server]:
    """A server for the block."""
    return running(Server(script, pages or {}))


class _Handler(streaming_server.Handler):
    def frame(self, event: Any) -> bytes:
        data = event if isinstance(event, str | bytes) else f"data: {json.dumps(event)}\n\n"
        return data.encode() if isinstance(data, str) else data

    def do_GET(self) -> None:  # noqa: N802 - http.server calls it so
        self.send(self.server.owner.page(self.path))

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it so
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path not in {
            "/v1/chat/completions",
            *(["/v1/responses"] if self.server.owner.responds else []),
        }:
            return self.send(self.server.owner.page(self.path))
        headers = {name.lower(): value for name, value in self.headers.items()}
        return self.send(self.server.owner.answer(Received(body, headers)))
