"""The Anthropic provider, through the real SDK, against a real server on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from repoagent.errors import ModelError
from repoagent.llm import Message, Part, Reply, Request, Retryable, Usage
from repoagent.llm.anthropic_api import AnthropicModel, thinks
from repoagent.llm.anthropic_errors import retry_after
from tests.llm.ask import ask
from tests.llm.server import KEY, Behaviour, Script, Server, cut, error_event, hang_up, status, text

Start = Callable[[Script], Server]
MODEL = AnthropicModel("claude-sonnet-5-5")


def call(request: Request | None = None, model: AnthropicModel = MODEL) -> tuple[Reply, list[str]]:
    pieces: list[str] = []
    return model.complete(request or ask(), pieces.append), pieces


def refused(kind: type[ModelError] = ModelError, model: AnthropicModel = MODEL) -> ModelError:
    with pytest.raises(kind) as raised:
        call(model=model)
    assert KEY not in str(raised.value)
    assert type(raised.value) is kind  # a Retryable where none is meant would be tried five times
    return raised.value


def test_a_reply_is_streamed_and_counted(server_with: Start) -> None:
    usage = {
        "input_tokens": 7,
        "output_tokens": 20,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
    }
    server_with(text("hello wörld", usage=usage, model="claude-sonnet-5-5-20260901"))
    reply, pieces = call()
    assert reply == Reply("hello wörld", "end", Usage(7, 20, 5, 3), "anthropic/claude-sonnet-5-5-20260901")
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text


def test_what_is_sent(server_with: Start) -> None:
    server = server_with("ok")
    parts = tuple(Part(f"part {n}\n", cache=n % 2 == 0) for n in range(12))
    request = Request(
        (Part("system", cache=True),),
        (Message("user", parts), Message("assistant", (Part("said"),)), Message("user", (Part("go on"),))),
        max_output_tokens=5000,
    )
    call(request, AnthropicModel("claude-sonnet-5-5", effort="low"))
    sent = server.requests[0]
    assert sent.system == "system"
    assert [role for role, _ in sent.turns] == ["user", "assistant", "user"]
    assert sent.turns[0][1] == "".join(part.text for part in parts)
    assert "Bearer " + KEY in sent.headers["authorization"]
    assert sent.body["thinking"] == {"type": "adaptive"}
    assert sent.body["output_config"] == {"effort": "low"}
    assert sent.body["max_tokens"] > 5000  # thinking has room of its own
    # the API takes four breakpoints: the last ones, since they hold the longest prefixes
    blocks = sent.body["messages"][0]["content"]
    cached = [block["text"] for block in blocks if block.get("cache_control") == {"type": "ephemeral"}]
    assert cached == ["part 4\n", "part 6\n", "part 8\n", "part 10\n"]
    assert "cache_control" not in sent.body["system"][0]


def test_blank_parts_and_bytes_that_are_no_text_can_be_sent(server_with: Start) -> None:
    server = server_with("ok")
    parts = (Part("\n"), Part("caf\udce9"), Part(""), Part("  \n", cache=True), Part("end"))
    call(Request((), (Message("user", parts),)))
    blocks = server.requests[0].body["messages"][0]["content"]
    assert [block["text"] for block in blocks] == ["\ncaf\ufffd  \n", "end"]
    assert "cache_control" in blocks[0]
    assert "system" not in server.requests[0].body


def test_thinking_is_no_part_of_the_reply(server_with: Start) -> None:
    server_with(text("the answer", thinking="let me see"))
    reply, pieces = call()
    assert reply.text == "".join(pieces) == "the answer"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-sonnet-5-5", True),
        ("claude-fable-5", True),
        ("claude-opus-4-6", True),
        ("claude-haiku-5-5-20261007", True),
        ("claude-haiku-4-5-20251001", False),
        ("claude-opus-4-20250514", False),
        ("claude-3-7-sonnet-latest", False),
        ("some-other-model", False),
    ],
)
def test_which_models_think(name: str, expected: bool) -> None:
    assert thinks(name) is expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "length"),
        ("something_new", "end"),
    ],
)
def test_stop_reasons(server_with: Start, stop: str, expected: str) -> None:
    server_with(text("some text", stop=stop))
    assert call()[0].stop == expected


def test_a_refusal_says_why(server_with: Start) -> None:
    server_with(text("I", stop="refusal", explanation="this could enable cyber harm"))
    reply, _ = call()
    assert (reply.stop, reply.text) == ("refusal", "this could enable cyber harm")


def test_missing_usage_is_estimated(server_with: Start) -> None:
    server_with(text("0123456789" * 30, report_usage=False))
    usage = call(ask("x" * 3000))[0].usage
    assert usage.estimated
    assert 500 < usage.input < 2000
    assert 50 < usage.output < 200


@pytest.mark.parametrize("broken", [cut("a partial text"), cut("a partial text", cleanly=True)])
def test_a_broken_stream_can_be_tried_again_and_is_paid_for(server_with: Start, broken: Script) -> None:
    server_with(broken)
    error = refused(Retryable)
    assert "broke off" in str(error)
    assert isinstance(error, Retryable)
    assert (error.usage.input, error.usage.estimated) == (100, True)
    assert error.usage.output >= 3


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (error_event("partial"), "overloaded"),
        (error_event(kind="rate_limit_error"), "rate limit"),
        (error_event(kind="api_error", message="Internal"), "Internal"),
        (status(500, "oops"), "500: oops"),
        (status(503), "503"),
        (status(529), "overloaded"),
        (status(408), "408"),
        (hang_up(), "can't be reached"),
        (status(400, "odd", x_should_retry="true"), "400"),
    ],
)
def test_what_may_pass_by_itself(server_with: Start, script: Script, words: str) -> None:
    server_with(script)
    assert words in str(refused(Retryable))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (status(401, "invalid x-api-key"), "rejected the key"),
        (status(401, f"no such key: {KEY}"), "[key]"),
        (status(403, "not for you"), "may not use anthropic/claude-sonnet-5-5"),
        (status(404, "model: claude-sonnet-5-5"), "knows no anthropic/claude-sonnet-5-5"),
        (status(400, "prompt is too long: 9 tokens > 8 maximum"), "too long"),
        (status(413), "too long"),
        (
            status(400, "messages.0: text is empty"),
            "does not accept the request (400: messages.0: text is empty)",
        ),
        (status(402, "no credit"), "can't pay"),
        (status(429, kind="enforced_spend_limit_reached"), "can't pay"),
        (status(529, x_should_retry="false"), "529"),
        (error_event("partial", kind="invalid_request_error", message="bad"), "400: bad"),
    ],
)
def test_what_will_not_pass(server_with: Start, script: Script, words: str) -> None:
    server_with(script)
    assert words in str(refused())


def test_how_long_the_server_asks_to_wait(server_with: Start) -> None:
    server_with([status(429, retry_after=7), status(429, retry_after=7, retry_after_ms=250), status(429)])
    waits = []
    for _ in range(3):
        error = refused(Retryable)
        assert isinstance(error, Retryable)
        waits.append(error.retry_after)
    assert waits == [7, 0.25, None]


def test_dates_and_rate_limit_resets() -> None:
    now = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
    reset = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:20Z",
        "anthropic-ratelimit-input-tokens-remaining": "0",
        "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:45Z",
        "anthropic-ratelimit-output-tokens-remaining": "10",
        "anthropic-ratelimit-output-tokens-reset": "2027-01-15T09:00:00Z",
    }
    assert retry_after(reset, now) == 45
    assert retry_after({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, now) == 30
    assert retry_after({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, now) == 0
    assert retry_after({"retry-after": "soon"}, now) is None
    assert retry_after({"retry-after": "nan"}, now) is None


def test_a_silent_server_times_out(server_with: Start) -> None:
    server_with([text("late", first_delay=1.0), text("a long reply", delay=1.0)])
    quick = AnthropicModel("claude-sonnet-5-5", read_seconds=0.2)
    assert "no answer for 0.2 s" in str(refused(Retryable, quick))
    assert "nothing came for 0.2 s" in str(refused(Retryable, quick))


def test_a_slow_first_token_is_waited_for(server_with: Start) -> None:
    server_with(text("late but here", first_delay=0.3))
    assert call()[0].text == "late but here"


def test_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://user:{KEY}@127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        assert "127.0.0.1 can't be reached" in str(refused(Retryable))


@pytest.mark.parametrize(
    ("base_url", "key", "words"),
    [
        ("http://127.0.0.1:9", KEY + "\n", "line end"),
        ("http://127.0.0.1:9", "schlüssel", "another character"),
        ("127.0.0.1:9/x", KEY, "ANTHROPIC_BASE_URL"),
        ("http://[::1", KEY, "ANTHROPIC_BASE_URL"),
        ("http://127.0.0.1:9", None, "--model manual"),
    ],
)
def test_wrong_settings(monkeypatch: pytest.MonkeyPatch, base_url: str, key: str | None, words: str) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", base_url)
    if key is not None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    assert words in str(refused())


@pytest.mark.parametrize(
    ("name", "value"), [("SSL_CERT_FILE", "/no/such/file"), ("ALL_PROXY", "odd://proxy:1")]
)
def test_wrong_network_settings(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"key-for-{name}")  # the client is made once for one environment
    monkeypatch.setenv(name, value)
    assert name in str(refused())


def test_an_auth_token_works_as_a_key(server_with: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = server_with("ok")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-1234")
    assert call()[0].text == "ok"
    assert server.requests[0].headers["authorization"] == "Bearer token-1234"


def run_python(script: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


WAIT_FOR_IT = "[thread.join() for thread in threading.enumerate() if thread.name == 'anthropic-preload']\n"


@pytest.mark.parametrize("wait", [WAIT_FOR_IT, ""])
def test_preload_imports_and_connects_in_the_background(server_with: Start, wait: str) -> None:
    server = server_with("ok")
    script = (
        "import sys, threading, time\n"
        "from repoagent.llm import preload, open_model\n"
        "from tests.llm.ask import ask\n"
        "assert 'anthropic' not in sys.modules\n"
        "started = time.perf_counter(); preload('anthropic/claude-sonnet-5-5')\n"
        "assert time.perf_counter() - started < 0.5\n"
        + wait
        + "model = open_model('anthropic/claude-sonnet-5-5')\n"
        "print(model.complete(ask(), lambda piece: None).text)\n"
    )
    assert run_python(script) == "ok\n"
    assert "authorization" in server.requests[0].headers
    if wait:
        assert (server.warmed, server.connections) == (1, 1)  # the call came over the connection made early


@pytest.mark.parametrize("key", ["", "k"])
def test_a_preload_that_fails_is_silent(key: str) -> None:
    script = "import threading\nfrom repoagent.llm import preload\npreload('anthropic/x')\n" + WAIT_FOR_IT
    assert run_python(script, ANTHROPIC_API_KEY=key, ANTHROPIC_BASE_URL="http://127.0.0.1:9") == ""


def test_importing_the_package_loads_no_provider() -> None:
    script = (
        "import sys, repoagent.llm as llm\n"
        "assert all(type(getattr(llm, name)).__name__ != 'module' for name in llm.__all__)\n"
        "model = llm.open_model('anthropic/claude-opus-5-5')\n"
        "assert model.spec == 'anthropic/claude-opus-5-5' and model.context_tokens == 1_000_000\n"
        "print(sorted({'anthropic', 'httpx2', 'pydantic', 'asyncio', 'ssl'} & sys.modules.keys()))\n"
    )
    assert run_python(script) == "[]\n"


def test_events_and_blocks_that_nobody_knows_yet(server_with: Start) -> None:
    known = text("the reply").events
    strange = (
        {"type": "mystery", "index": 0},
        {"type": "content_block_start", "index": 7, "content_block": {"type": "hologram", "data": "x"}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "hologram_delta", "data": "x"}},
    )
    server_with(Behaviour(events=(known[0], *strange, *known[1:])))
    assert call()[0].text == "the reply"


def test_an_answer_of_something_else(server_with: Start) -> None:
    server_with(Behaviour(body={"hello": "I am a proxy"}))
    assert "broke off" in str(refused(Retryable))
