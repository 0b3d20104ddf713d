"""A local server with streaming Chat Completions, controlled by a script (see streaming_server.py).

    with openai_server(["first reply", status(429), text("second", finish="length")]) as server:
        ...                            # an OpenAIModel talks to it through server.endpoint()
        server.requests[0].text        # the received prompt

`pages` has the content of other paths: {"/v1/models": {...}, "/props": raw(b"?")}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from repoagent.llm.providers.endpoints import Endpoint
from tests.llm.providers import streaming_server
from tests.llm.providers.streaming_server import Behaviour, Script, pieces, running

KEY = "sk-openai-test-0123456789abcdef"
KEY_VARIABLE = "TEST_SERVER_KEY"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def text(
    reply: str,
    *,
    finish: str | None = "stop",
    thinking: str = "",
    usage: Any = USAGE,
    usage_at: str = "last",
    done: bool = True,
    count: int = 5,
    **delays: float,
) -> Behaviour:
    """A reply in about `count` deltas. `usage` comes in a chunk of its own ("last"), with the finish reason
    ("finish"), in each chunk ("each") or before the text ("first"); None: not at all. `thinking` comes before
    the text, as `reasoning_content`."""
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in pieces(thinking, count)]
    deltas += [{"content": piece} for piece in pieces(reply, count)]
    events = [chunk({"delta": delta, "finish_reason": None}) for delta in deltas]
    events.append(chunk({"delta": {}, "finish_reason": finish}))
    if usage is not None:
        if usage_at == "last":
            events.append(chunk())
        where = {"finish": [-1], "each": range(len(events)), "first": [0], "last": [-1]}[usage_at]
        for at in where:
            events[at]["usage"] = usage
    return chunks(*events, *(["data: [DONE]\n\n"] if done else []), **delays)


def chunk(*choices: Mapping[str, Any]) -> dict[str, Any]:
    head = {"id": "chatcmpl-test", "object": "chat.completion.chunk", "model": "test-model-0101"}
    return {**head, "choices": [{"index": at, **choice} for at, choice in enumerate(choices)]}


def chunks(*events: Any, **delays: float) -> Behaviour:
    return Behaviour(events=events, **delays)


def status(
    code: int, message: Any = "", *, error: str = "", param: str | None = None, **headers: str | float
) -> Behaviour:
    """An error: `status(503)`, `status(429, retry_after=3)`, `status(400, "too long", error="its_code")`."""
    body = {"message": message or f"scripted {code}", "type": "test", "param": param, "code": error}
    return Behaviour(code, headers, {"error": body})


def raw(body: bytes, *, code: int = 200, kind: str = "text/plain") -> Behaviour:
    """A body that is not a stream."""
    return Behaviour(code, {"content_type": kind}, body)


def cut(reply: str, *, cleanly: bool = False) -> Behaviour:
    """The connection breaks during the reply; `cleanly`: the body ends properly, but the reply does not."""
    return Behaviour(events=text(reply).events[:-3], cut=not cleanly)


def error_chunk(reply: str = "", **error: Any) -> Behaviour:
    """An error as an event in the stream, after `reply`."""
    return Behaviour(events=(*(text(reply).events[:-3] if reply else ()), {"error": error}))


class Server(streaming_server.Server):
    def __init__(self, script: Script, pages: Mapping[str, Any]) -> None:
        super().__init__(script, _Handler)
        self.pages = pages
        self.responds = False  # whether it has the Responses API, too

    def endpoint(
        self, name: str = "testing", *traits: str, path: str = "/v1", local: bool = True, keyed: bool = True
    ) -> Endpoint:
        """The endpoint of this server; its key is in the environment variable KEY_VARIABLE."""
        return Endpoint(name, self.url + path, (KEY_VARIABLE,) * keyed, local, frozenset(traits))


def openai_server(
    script: Script = (), pages: Mapping[str, Any] | None = None
) -> AbstractContextManager[Server]:
    """A server for the block."""
    return running(Server(script, pages or {}))


class _Handler(streaming_server.Handler):
    text = staticmethod(text)

    def is_message(self) -> bool:
        responses = self.path == "/v1/responses" and self.server.owner.responds
        return self.path == "/v1/chat/completions" or responses

    def other(self) -> Behaviour:
        missing = raw(b"404 page not found", code=404)  # as Ollama has it
        page = self.server.owner.pages.get(self.path.partition("?")[0], missing)
        return page if isinstance(page, Behaviour) else Behaviour(body=page)

    def frame(self, event: Any) -> bytes:
        return (event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n").encode()
