"""What all providers of servers do: Claude's API, Bedrock, Vertex AI, and Chat Completions, each against its server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Reply, Retryable, Usage
from repoagent.llm.providers.anthropic import AnthropicModel
from repoagent.llm.providers.endpoints import Endpoint
from repoagent.llm.providers.openai import OpenAIModel
from tests.llm.conftest import Put
from tests.llm.helpers import ask, call, refused
from tests.llm.providers import messages_server, openai_server
from tests.llm.providers.streaming_server import Behaviour

CLAUDES = {
    "anthropic": "claude-sonnet-5-5",
    "bedrock": "us.anthropic.claude-sonnet-5-5-v1:0",
    "vertex": "claude-sonnet-5-5@20260901",
}


class Wire(NamedTuple):
    """A provider: the behaviours of a server that speaks its protocol, and a model at such a server."""

    name: str
    build: Any
    start: Callable[[Any], Any]


CLOUDS = [pytest.param(cloud, marks=pytest.mark.soak) for cloud in ("bedrock", "vertex")]


@pytest.fixture(params=["anthropic", "openai", *CLOUDS])
def wire(request: pytest.FixtureRequest, serve: Any, server_with: Any) -> Wire:
    name = request.param

    def start(script: Any) -> Any:
        if name == "openai":
            return OpenAIModel(serve(script).endpoint(), "test-model")
        server_with(script, name)
        return AnthropicModel(CLAUDES[name], platform=name)

    return Wire(name, openai_server if name == "openai" else messages_server, start)


def test_a_reply_is_streamed_and_counted(wire: Wire) -> None:
    counts: dict[str, Any] = {"input_tokens": 7, "output_tokens": 20, "cache_read_input_tokens": 5}
    if wire.name == "openai":
        cached = {"prompt_tokens_details": {"cached_tokens": 5}}
        counts = {"prompt_tokens": 12, "completion_tokens": 20, **cached}
    model = wire.start(wire.build.text("hello wörld", thinking="hm", usage=counts))
    pieces: list[str] = []
    reply = model.complete(ask(), pieces.append)
    served = "claude-test" if wire.name != "openai" else "test-model-0101"
    assert reply == Reply("hello wörld", "end", Usage(7, 20, 5), f"{model.spec.partition('/')[0]}/{served}")
    assert len(pieces) > 1 and "".join(pieces) == reply.text


def test_missing_usage_is_estimated(wire: Wire) -> None:
    model = wire.start(wire.build.text("0123456789" * 30, usage=None))
    usage = call(model, ask("x" * 3000)).usage
    assert usage.estimated and 500 < usage.input < 2000 and 50 < usage.output < 200


def test_a_cut_stream_is_retryable_and_counted(wire: Wire) -> None:
    model = wire.start([wire.build.cut("a partial text", cleanly=cleanly) for cleanly in (False, True)])
    for _ in range(2):
        error = refused(model, Retryable)
        assert "was cut off" in str(error)
        assert error.usage.estimated and error.usage.input > 5 and error.usage.output >= 3


def test_time_limits(wire: Wire) -> None:
    delays = {"late": 1.0, "late but here": 0.3}
    late, in_time = (wire.build.text(said, first_delay=delay) for said, delay in delays.items())
    model = wire.start([late, wire.build.text("a long reply", delay=1.0), in_time])
    quick = replace(model, read_seconds=0.2)
    assert "for 0.2 s" in str(refused(quick, Retryable))
    assert "no data for 0.2 s" in str(refused(quick, Retryable))
    assert call(model).text == "late but here"


REJECTIONS = [
    (500, "oops", "500: oops", Retryable),
    (503, "", "503", Retryable),
    (408, "", "408", Retryable),
    (429, "", "has hit its rate limit", Retryable),
    (529, "", "overloaded", Retryable),
    (402, "no credit", "cannot pay", ModelError),
    (403, "not for you", "is not allowed to use ", ModelError),
    (413, "", "the prompt is too long for ", ModelError),
    (400, "prompt is too long: 9 tokens > 8 maximum", "the prompt is too long for ", ModelError),
    (400, "messages: empty", "does not accept the request (400: messages: empty)", ModelError),
]


def test_rejections(wire: Wire) -> None:
    model = wire.start([wire.build.status(code, message) for code, message, _, _ in REJECTIONS])
    for _, _, words, kind in REJECTIONS:
        assert words in str(refused(model, kind))


def test_the_headers_of_a_rejection(wire: Wire) -> None:
    waits = ({"retry_after": 7}, {"retry_after": "Fri, 27 Nov 2026 10:00:00 GMT"}, {})
    answers = [wire.build.status(429, **headers) for headers in waits]
    model = wire.start([*answers, wire.build.status(529, x_should_retry="false")])
    assert [refused(model, Retryable).retry_after for _ in waits] == [7, None, None]
    assert "529" in str(refused(model, ModelError))


def test_a_server_that_hangs_up(wire: Wire) -> None:
    assert "cannot reach" in str(refused(wire.start(Behaviour(cut=True)), Retryable))


def test_exceptions_of_on_text_are_passed_on(wire: Wire) -> None:
    def fail(piece: str) -> None:
        raise KeyError(piece[:1])

    with pytest.raises(KeyError, match="s"):
        wire.start("some text").complete(ask(), fail)


def test_no_server(put: Put) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://user:{openai_server.KEY}@127.0.0.1:{unused.getsockname()[1]}"
        local = Endpoint("ollama", f"{url}/v1", local=True)
        error = str(refused(OpenAIModel(local, "m")))
        assert "/v1: start it with `ollama serve`, or check OLLAMA_HOST or providers.ollama.base_url" in error
        error = str(refused(OpenAIModel(replace(local, local=False), "m"), Retryable))
        assert "cannot reach http://127.0.0.1" in error
        put(ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY=messages_server.KEY)
        error = str(refused(AnthropicModel("claude-sonnet-5-5"), Retryable))
        assert "cannot reach 127.0.0.1" in error
