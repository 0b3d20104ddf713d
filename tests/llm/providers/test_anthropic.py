"""The Anthropic provider, through the real SDK, against a real server on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import ModelError
from repoagent.llm.catalog import family_name, thinks
from repoagent.llm.model import Message, Part, Request, Retryable, Usage, Wishes
from repoagent.llm.providers.anthropic import AnthropicModel
from tests.llm.conftest import Put, Start
from tests.llm.helpers import ask, call, refused
from tests.llm.providers.messages_server import KEY, PORTAL, error_event, status, text
from tests.llm.providers.streaming_server import Behaviour

MODEL = AnthropicModel("claude-sonnet-5-5")


def test_the_content_of_a_request(server_with: Start) -> None:
    server = server_with("ok")
    parts = tuple(Part(f"part {n}\n", cache=n % 2 == 0) for n in range(12))
    request = Request(
        (Part("system", cache=True),),
        (Message("user", parts), Message("assistant", (Part("said"),)), Message("user", (Part("go on"),))),
        max_output_tokens=5000,
    )
    call(AnthropicModel("claude-sonnet-5-5", Wishes(effort="low")), request)
    sent = server.requests[0]
    assert sent.system == "system"
    assert [role for role, _ in sent.turns] == ["user", "assistant", "user"]
    assert sent.turns[0][1] == "".join(part.text for part in parts)
    assert "Bearer " + KEY in sent.headers["authorization"]
    assert sent.body["thinking"] == {"type": "adaptive"}
    assert sent.body["output_config"] == {"effort": "low"}
    assert sent.body["max_tokens"] > 5000  # additional tokens for thinking
    # the API takes four breakpoints: the last ones, since they hold the longest prefixes
    blocks = sent.body["messages"][0]["content"]
    cached = [block["text"] for block in blocks if block.get("cache_control") == {"type": "ephemeral"}]
    assert cached == ["part 4\n", "part 6\n", "part 8\n", "part 10\n"]
    assert "cache_control" not in sent.body["system"][0]


def test_blank_parts_and_invalid_unicode(server_with: Start) -> None:
    server = server_with("ok")
    parts = (Part("\n"), Part("caf\udce9"), Part(""), Part("  \n", cache=True), Part("end"))
    call(MODEL, Request((), (Message("user", parts),)))
    blocks = server.requests[0].body["messages"][0]["content"]
    assert [block["text"] for block in blocks] == ["\ncaf\ufffd  \n", "end"]
    assert "cache_control" in blocks[0]
    assert "system" not in server.requests[0].body


def test_stop_reasons_and_why_a_model_refuses(server_with: Start) -> None:
    reasons = {
        **dict.fromkeys(("end_turn", "stop_sequence", "something_new"), "end"),
        **dict.fromkeys(("max_tokens", "model_context_window_exceeded", "pause_turn"), "length"),
    }
    server_with([text("some text", stop=stop) for stop in reasons])
    assert {stop: call(MODEL).stop for stop in reasons} == reasons
    *begun, last, end = text("I", stop="refusal").events
    for explanation, words in (("this is harmful", "this is harmful"), (None, "refusal category: bio")):
        details = {"type": "refusal", "category": "bio", "explanation": explanation}
        said = {**last, "delta": {**last["delta"], "stop_details": details}}
        server_with(Behaviour(events=(*begun, said, end)))
        reply = call(MODEL)
        assert (reply.stop, reply.text) == ("refusal", words)


OTHER_SERVER = "does not speak the Messages API ("
MALFORMED = OTHER_SERVER + "malformed event"


def test_failures_are_retried_or_say_what_to_do(server_with: Start) -> None:
    transient = [
        (error_event("partial"), "overloaded"),
        (error_event(kind="rate_limit_error"), "rate limit"),
        (error_event(kind="api_error", message="Internal"), "Internal"),
        (status(400, "odd", x_should_retry="true"), "400"),
    ]
    permanent = [
        (status(401, "invalid x-api-key"), "rejected the key"),
        (status(401, f"no such key: {KEY}"), "[key]"),
        (status(404, "model: claude-sonnet-5-5"), "has no anthropic/claude-sonnet-5-5"),
        (status(429, kind="enforced_spend_limit_reached"), "cannot pay"),
        (error_event("partial", kind="invalid_request_error", message="bad"), "400: bad"),
        (Behaviour(body={"hello": "I am a proxy"}), OTHER_SERVER + "it answered with application/json instead of an event stream"),
        (PORTAL, OTHER_SERVER + "it answered with text/html instead of an event stream"),
        (Behaviour(events=({"type": "message_delta"},)), MALFORMED),
        (Behaviour(events=({"type": "content_block_delta", "delta": None},)), MALFORMED),
    ]  # fmt: skip
    server_with([script for script, _ in (*transient, *permanent)])
    for kind, rows in ((Retryable, transient), (ModelError, permanent)):
        for _, words in rows:
            assert words in str(refused(MODEL, kind))


@pytest.mark.parametrize(("key", "environment", "words"), [
    (KEY + "\n", {}, "line break"),
    ("schlüssel", {}, "invalid character"),
    (KEY, {"ANTHROPIC_BASE_URL": "127.0.0.1:9/x"}, "ANTHROPIC_BASE_URL"),
    (KEY, {"ANTHROPIC_BASE_URL": "http://[::1"}, "ANTHROPIC_BASE_URL"),
    ("", {}, "--model manual"),
    # the client is made once for one environment: a key of its own for each
    ("key-1", {"SSL_CERT_FILE": "/no/such/file"}, "SSL_CERT_FILE"),
    ("key-2", {"ALL_PROXY": "odd://proxy:1"}, "ALL_PROXY"),
])  # fmt: skip
def test_wrong_settings(
    monkeypatch: pytest.MonkeyPatch, key: str, environment: dict[str, str], words: str
) -> None:
    nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": key}
    for name, value in {**nowhere, **environment}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ModelError, match=words) as raised:
        call(MODEL)
    assert KEY not in str(raised.value) and not isinstance(raised.value, Retryable)


def run_python(script: str, **environment: str) -> str:
    command, whole = [sys.executable, "-c", script], {**os.environ, **environment}
    done = subprocess.run(command, env=whole, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def test_without_credentials_nothing_is_imported() -> None:
    """The package takes two seconds of CPU time; a hook without a key should fail at once."""
    script = (
        "import sys\n"
        "from repoagent.llm.providers.anthropic import AnthropicModel, connect\n"
        "model = AnthropicModel('claude-opus-5-5')\n"
        "assert model.spec == 'anthropic/claude-opus-5-5' and model.context_tokens == 1_000_000\n"
        "assert not {'boto3', 'google', 'pydantic', 'asyncio'} & {*sys.modules}\n"
        "try:\n    connect()\nexcept Exception as error:\n    print(error)\n"
        "assert not {'anthropic', 'httpx2', 'ssl'} & {*sys.modules}\n"
    )
    output = run_python(script, ANTHROPIC_BASE_URL="https://gateway.example", ANTHROPIC_AUTH_TOKEN="")
    assert output.startswith("no key for Anthropic's models. ")


def test_a_token_or_a_profile_of_the_sdk_is_enough(
    server_with: Start, put: Put, clean_environment: Path
) -> None:
    """End to end: the credentials that the package finds in the environment, or in its folder, are sent."""
    server = server_with(lambda received: "ok")
    put(ANTHROPIC_API_KEY="", ANTHROPIC_AUTH_TOKEN="token-1234")
    assert call(MODEL).text == "ok"
    put(ANTHROPIC_AUTH_TOKEN="")
    folder = clean_environment / ".config/anthropic"
    for name in ("configs", "credentials"):
        (folder / name).mkdir(parents=True)
    (folder / "active_config").write_text("work\n")
    (folder / "configs/work.json").write_text('{"authentication": {"type": "user_oauth"}}')
    secret = folder / "credentials/work.json"
    secret.write_text('{"access_token": "token-5678", "type": "oauth_token"}')
    secret.chmod(0o600)
    assert call(MODEL).text == "ok"
    sent = [received.headers["authorization"] for received in server.requests]
    assert sent == ["Bearer token-1234", "Bearer token-5678"]


@pytest.mark.soak
@pytest.mark.parametrize(
    "wait",
    ["[thread.join() for thread in threading.enumerate() if thread.name == 'anthropic-preload']\n", ""],
)
def test_preload_imports_and_connects_in_the_background(server_with: Start, wait: str) -> None:
    server = server_with("ok")
    script = (
        "import sys, threading, time\n"
        "from repoagent.llm.providers.anthropic import AnthropicBackend, AnthropicModel\n"
        "from tests.llm.helpers import ask\n"
        "assert 'anthropic' not in sys.modules\n"
        "started = time.perf_counter(); AnthropicBackend('anthropic').preload('')\n"
        "assert time.perf_counter() - started < 0.5\n"
        + wait
        + "model = AnthropicModel('claude-sonnet-5-5')\n"
        "print(model.complete(ask(), lambda piece: None).text)\n"
    )
    assert run_python(script) == "ok\n"
    assert "authorization" in server.requests[0].headers
    if wait:
        assert (server.warmed, server.connections) == (1, 1)  # the call came over the connection made early


@pytest.mark.soak
@pytest.mark.parametrize("key", ["", "k"])
def test_a_preload_that_fails_is_silent_and_ends_before_the_program(key: str) -> None:
    """An interpreter that is finalized during an import can crash."""
    script = (
        "import atexit, threading\n"
        "from repoagent.llm.providers.anthropic import AnthropicBackend\n"
        "atexit.register(lambda: print([t.name for t in threading.enumerate()]))\nAnthropicBackend('anthropic').preload('')\n"
    )
    output = run_python(script, ANTHROPIC_API_KEY=key, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert output == "['MainThread']\n"


def test_invalid_utf8_in_the_stream(server_with: Start) -> None:
    begun = text("a partial text").events[:-3]
    server_with(Behaviour(events=(*begun, b"event: message_stop\ndata: \xff\n\n")))
    error = refused(MODEL, Retryable)
    assert error.usage.input == 100 and "was cut off (UnicodeDecodeError)" in str(error)


def test_streams_of_gateways_end_differently(server_with: Start) -> None:
    whole = text("the reply").events
    server_with([Behaviour(events=events) for events in (whole[:-1], (*whole, b"data: [DONE]\n\n"))])
    for _ in range(2):
        reply = call(MODEL)
        assert (reply.text, reply.stop, reply.usage.estimated) == ("the reply", "end", False)


@pytest.mark.parametrize(("start", "end", "expected"), [
    # all counts are cumulative, so the last ones are whole
    ({"input_tokens": 9, "output_tokens": 1}, {"input_tokens": 12, "output_tokens": 80}, Usage(12, 80)),
    # a gateway that counts only at the end, and one that leaves zeros there
    ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 12, "output_tokens": 80}, Usage(12, 80)),
    ({"input_tokens": 9, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 80}, Usage(9, 80)),
    # everything came from the cache
    ({"input_tokens": 0, "output_tokens": 1, "cache_read_input_tokens": 50}, {"output_tokens": 80}, Usage(0, 80, 50)),
    # implausible counts are estimated; the API reports 1 before it begins
    ({"input_tokens": 100, "output_tokens": 1}, None, None),
    ({"input_tokens": 100, "output_tokens": 1}, {"output_tokens": 0}, None),
    ({"input_tokens": 0, "output_tokens": 0}, {"input_tokens": 0, "output_tokens": 80}, None),
    (None, {"output_tokens": 80}, None),
])  # fmt: skip
def test_counts_that_come_in_two_parts(
    server_with: Start, start: dict[str, int] | None, end: dict[str, int] | None, expected: Usage | None
) -> None:
    first, *middle, last, stop = text("x" * 300, usage=None).events
    if start is not None:
        first = {**first, "message": {**first["message"], "usage": start}}
    if end is not None:
        last = {**last, "usage": end}
    server_with(Behaviour(events=(first, *middle, last, stop)))
    usage = call(MODEL, ask("y" * 300)).usage
    if expected is None:
        assert usage.estimated and 80 <= usage.output <= 110 and 80 < usage.input < 150
    else:
        assert usage == expected


WISHES, RETRY = Wishes(effort="xhigh", temperature=0.2), replace(ask(), temperature=0.0)
EFFORT = {"output_config": {"effort": "xhigh"}}
THINKS = {**EFFORT, "thinking": {"type": "adaptive"}}


@pytest.mark.parametrize(("name", "wishes", "attempt", "expected"), [
    ("claude-sonnet-5-5", WISHES, ask(), THINKS),  # no temperature together with thinking
    ("claude-sonnet-5-5", WISHES, RETRY, THINKS),
    ("claude-haiku-4-5", WISHES, ask(), {"temperature": 0.2}),
    ("claude-haiku-4-5", WISHES, RETRY, {"temperature": 0.0}),
    ("claude-haiku-4-5", Wishes(), RETRY, {"temperature": 0.0}),
    ("our-own-model", WISHES, ask(), {"temperature": 0.2, **EFFORT}),  # of a gateway: it has to know
])  # fmt: skip
def test_wishes_are_sent_if_the_model_supports_them(
    server_with: Start, name: str, wishes: Wishes, attempt: Request, expected: dict[str, Any]
) -> None:
    server = server_with("ok")
    call(AnthropicModel(name, wishes), attempt)
    optional = {"temperature", "output_config", "thinking"}
    assert {key: value for key, value in server.requests[0].body.items() if key in optional} == expected


def test_the_lifetime_of_the_prompt_cache(server_with: Start) -> None:
    server = server_with(lambda received: "ok")
    request = Request((Part("system", cache=True),), ask().messages)
    lifetimes = {"5m": {"type": "ephemeral"}, "1h": {"type": "ephemeral", "ttl": "1h"}, "off": None}
    for cache, expected in lifetimes.items():
        call(AnthropicModel("claude-sonnet-5-5", Wishes(cache=cache)), request)
        assert server.requests[-1].body["system"][0].get("cache_control") == expected


ARN = "arn:aws:bedrock:us-east-1:123456789012:"


def test_what_the_name_of_a_model_tells() -> None:
    for name, family, context in (
        ("claude-sonnet-5-5-20260901", "claude-sonnet-5-5", 1_000_000),
        ("claude-sonnet-5-5@20260901", "claude-sonnet-5-5", 1_000_000),
        ("us.anthropic.claude-sonnet-5-5-v1:0", "claude-sonnet-5-5", 1_000_000),
        ("global.anthropic.claude-opus-5", "claude-opus-5", 1_000_000),
        (f"{ARN}inference-profile/us.anthropic.claude-opus-4-6-v1", "claude-opus-4-6", 1_000_000),
        ("claude-opus-4-5-20251101", "claude-opus-4-5", 200_000),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5", 200_000),  # of a gateway
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet", 200_000),
        (f"{ARN}application-profile/abc123", f"{ARN}application-profile/abc123", None),
    ):
        found = family_name(name), AnthropicModel(name).context_tokens, thinks(name)
        assert found == (family, context, context == 1_000_000), name
        effort = context != 200_000 or family == "claude-opus-4-5"
        takes = {"cache", "tools"} | ({"effort"} if effort else set())
        assert AnthropicModel(name).takes == takes | ({"temperature"} if context != 1_000_000 else set())
