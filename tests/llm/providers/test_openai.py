"""The OpenAI-compatible provider, through the real SDK, against a real server on this machine."""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import ModelError
from repoagent.llm.model import Message, Part, Reply, Request, Retryable, Usage, Wishes
from repoagent.llm.providers.endpoints import Endpoint, endpoint
from repoagent.llm.providers.openai import OpenAIModel
from tests.llm.ask import ask
from tests.llm.providers.openai_server import (
    KEY,
    KEY_VARIABLE,
    USAGE,
    Behaviour,
    Server,
    chunk,
    chunks,
    error_chunk,
    openai_server,
    raw,
    status,
    text,
)

Start = Callable[..., Server]
DONE = "data: [DONE]\n\n"


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`serve(script, pages)` starts a server and sets the key for it."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with ExitStack() as running:
        yield lambda script, pages=None: running.enter_context(openai_server(script, pages))


def call(model: OpenAIModel, request: Request | None = None) -> tuple[Reply, list[str]]:
    pieces: list[str] = []
    return model.complete(request or ask(), pieces.append), pieces


def refused(model: OpenAIModel, kind: type[ModelError] = ModelError, request: Request | None = None) -> Any:
    with pytest.raises(kind) as raised:
        call(model, request)
    assert type(raised.value) is kind, (
        raised.value
    )  # a Retryable where none is meant would be tried five times
    assert KEY not in str(raised.value)
    assert KEY not in repr(raised.value)
    assert "\n" not in str(raised.value)
    return raised.value


def model_of(server: Server, *traits: str, name: str = "test-model", **wishes: Any) -> OpenAIModel:
    return OpenAIModel(server.endpoint("testing", *traits), name, Wishes(**wishes))


def test_the_content_of_a_request(serve: Start) -> None:
    server = serve("ok")
    request = Request(
        (Part("You "), Part("edit.", cache=True)),
        (
            Message("user", (Part("a"), Part("b"))),
            Message("assistant", (Part("said"),)),
            Message("user", (Part("go"),)),
        ),
        max_output_tokens=5000,
        grammar="root ::= .*",
    )
    call(model_of(server, effort="low", temperature=0.0, stop=("END",)), request)
    sent = server.requests[0]
    assert sent.turns == [("system", "You edit."), ("user", "ab"), ("assistant", "said"), ("user", "go")]
    body = dict(sent.body)
    assert body.pop("messages")[1] == {"role": "user", "content": "ab"}
    assert body.pop("max_tokens") > 5000  # additional tokens for thinking
    assert body == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "low",
        "temperature": 0.0,
        "stop": ["END"],
    }


@pytest.mark.parametrize(
    ("traits", "name", "wishes", "field", "value"),
    [
        ((), "m", {}, "max_tokens", 5000),
        (("max_completion_tokens",), "m", {}, "max_completion_tokens", 5000),
        (("max_completion_tokens",), "gpt-5.2", {}, "max_completion_tokens", 37_000),
        (("grammar",), "m", {}, "grammar", "root ::= .*"),
        ((), "m", {}, "grammar", None),
        (("usage_unasked",), "m", {}, "stream_options", None),
        (("reasoning_object",), "m", {"effort": "high"}, "reasoning", {"effort": "high"}),
        (("reasoning_object",), "m", {"effort": "high"}, "reasoning_effort", None),
        ((), "m", {}, "reasoning_effort", None),
        ((), "m", {}, "temperature", None),
        ((), "m", {}, "stop", None),
    ],
)
def test_real_differences_between_servers(
    serve: Start, traits: tuple[str, ...], name: str, wishes: dict[str, str], *, field: str, value: object
) -> None:
    server = serve("ok")
    request = replace(ask(), max_output_tokens=5000, grammar="root ::= .*")
    call(model_of(server, *traits, name=name, **wishes), request)
    assert server.requests[0].body.get(field) == value


def test_cache_breakpoints(serve: Start) -> None:
    server = serve("ok")
    parts = tuple(Part(f"part {n}\n", cache=n % 2 == 0) for n in range(12))
    request = Request(
        (Part("\n"), Part("system", cache=True)), (Message("user", (*parts, Part("  ", cache=True))),)
    )
    call(model_of(server, "breakpoints", name="anthropic/claude", cache="1h"), request)
    call(model_of(server, "breakpoints", name="openai/gpt"), request)
    call(model_of(server, "breakpoints", name="anthropic/claude", cache="off"), request)
    marked, *plain = [sent.body["messages"] for sent in server.requests]
    assert plain[0] == plain[1]
    assert isinstance(plain[0][0]["content"], str)
    assert server.requests[0].turns == server.requests[1].turns
    blocks = marked[1]["content"]
    cached = [
        block["text"] for block in blocks if block.get("cache_control") == {"type": "ephemeral", "ttl": "1h"}
    ]
    assert cached == ["part 6\n", "part 8\n", "part 10\n", "part 11\n  "]
    assert "cache_control" not in marked[0]["content"][0]
    assert model_of(server, "breakpoints", name="anthropic/claude").takes == {
        "effort",
        "temperature",
        "stop",
        "cache",
        "tools",
    }
    assert model_of(server).takes == {"effort", "temperature", "stop", "tools"}


def test_invalid_unicode_is_replaced(serve: Start) -> None:
    server = serve("ok")
    call(model_of(server), ask("caf\udce9 \U0001f600 \ud83d", system=""))
    assert server.requests[0].turns == [("user", "caf\ufffd \U0001f600 \ufffd")]


def test_the_account_of_openai_is_not_sent_to_other_servers(
    serve: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: of-openai\nAuthorization: of-openai")
    server = serve("ok")
    call(OpenAIModel(server.endpoint(keyed=False), "test-model"))
    assert "authorization" not in server.requests[0].headers
    assert "of-openai" not in str(server.requests[0].headers)
    call(OpenAIModel(server.endpoint("openai"), "test-model"))
    assert server.requests[1].headers["openai-organization"] == "of-openai"
    assert server.requests[1].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "end"),
        ("eos", "end"),
        ("tool_calls", "end"),
        ("length", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filter", "refusal"),
        ("content_filter: RECITATION", "refusal"),
    ],
)
def test_finish_reasons(serve: Start, finish: str, expected: str) -> None:
    assert call(model_of(serve(text("some text", finish=finish))))[0].stop == expected


def test_a_refusal_says_why(serve: Start) -> None:
    deltas = [chunk({"delta": {"refusal": piece}}) for piece in ("I can't ", "do that")]
    reply, pieces = call(
        model_of(serve(chunks(*deltas, chunk({"delta": {}, "finish_reason": "stop"}), DONE)))
    )
    assert (reply.stop, reply.text, pieces) == ("refusal", "I can't do that", [])


@pytest.mark.parametrize(
    "script",
    [
        text("the answer", thinking="let me see " * 30, usage=None),
        text("<think>let me see " + "so " * 90 + "</think>\n\nthe answer", usage=None),
        chunks(
            chunk(
                {
                    "delta": {
                        "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "so " * 99}]}]
                    }
                }
            ),
            chunk({"delta": {"content": [{"type": "text", "text": "the answer"}]}, "finish_reason": "stop"}),
        ),
        chunks(
            chunk({"delta": {"reasoning": "so " * 99, "reasoning_content": "so " * 99}}),
            chunk({"delta": {"content": "the answer"}, "finish_reason": "stop"}),
        ),
    ],
)
def test_thinking_is_counted_but_not_part_of_the_reply(serve: Start, script: Behaviour) -> None:
    reply, pieces = call(model_of(serve(script)))
    assert reply.text == "".join(pieces) == "the answer"
    assert reply.usage.estimated
    assert 90 < reply.usage.output < 130


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("<think>only thought", ""),
        ("<think>a</think>", ""),
        (" \n<think>a</think>\r\n\n  b</think>", "  b</think>"),
        ("<thinking>a</thinking>b", "<thinking>a</thinking>b"),
        ("see <think>a</think>", "see <think>a</think>"),
        ("<thi", "<thi"),
        ("  ", "  "),
    ],
)
def test_think_blocks(serve: Start, reply: str, expected: str) -> None:
    got, pieces = call(model_of(serve(text(reply, pieces=len(reply)))))
    assert (got.text, "".join(pieces)) == (expected, expected)


@pytest.mark.parametrize(
    ("usage", "at", "expected"),
    [
        (USAGE, "last", Usage(100, 20)),
        (USAGE, "finish", Usage(100, 20)),
        (USAGE, "each", Usage(100, 20)),
        (USAGE, "first", Usage(100, 20)),
        # what xAI and Google do not count as the reply, but in the total
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, "last", Usage(10, 30)),
        # DeepSeek, OpenRouter
        ({"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, "last", Usage(6, 5, 4)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            },
            "last",
            Usage(5, 5, 2, 3),
        ),
        # a cache that is larger than the prompt
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 99}},
            "last",
            Usage(10, 5),
        ),
    ],
)
def test_usage(serve: Start, usage: dict[str, Any], at: str, expected: Usage) -> None:
    assert call(model_of(serve(text("some text", usage=usage, usage_at=at))))[0].usage == expected


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"prompt_tokens": -1, "completion_tokens": 1.5, "prompt_tokens_details": None},
        {"prompt_tokens": "700", "completion_tokens": True, "prompt_tokens_details": []},
        [1],
    ],
)
def test_missing_and_wrong_usage_is_estimated(serve: Start, usage: Any) -> None:
    got = call(model_of(serve(text("0123456789" * 30, usage=usage))), ask("x" * 3000))[0].usage
    assert got.estimated
    assert 500 < got.input < 2000
    assert 50 < got.output < 200


def test_implausible_counts_do_not_replace_a_count(serve: Start) -> None:
    events = text("some text", usage=None).events
    counts = [{"prompt_tokens": 90, "completion_tokens": n, "total_tokens": 90 + n} for n in (1, 4, 9)]
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    script = chunks(
        *({**event, "usage": usage} for event, usage in zip(events, [*counts, zeros], strict=False)),
        *events[4:],
    )
    assert call(model_of(serve(script)))[0].usage == Usage(90, 9)


def test_the_cost_of_a_call(serve: Start) -> None:
    usages = [
        {**USAGE, "cost": 0.0123},
        {**USAGE, "cost": 0, "is_byok": True},
        {**USAGE, "cost": "0.1"},
        USAGE,
    ]
    server = serve([text("hi", usage=usage) for usage in [*usages, usages[0]]])
    costs = [call(model_of(server, "cost"))[0].usage.dollars for _ in usages]
    assert costs == [0.0123, None, None, None]
    assert call(model_of(server))[0].usage.dollars is None


@pytest.mark.parametrize(
    "script",
    [
        chunks(),
        chunks(DONE),
        chunks(chunk({"delta": {"role": "assistant", "content": ""}}), DONE),
        chunks(chunk({"delta": {"content": "half"}}), 'data: {"id": "x", "choi'),
        text("half a reply", finish=None, usage=None, done=False),
    ],
)
def test_incomplete_streams_are_retryable(serve: Start, script: Behaviour) -> None:
    assert "was cut off" in str(refused(model_of(serve(script)), Retryable))


@pytest.mark.parametrize(
    "script",
    [
        text("the reply", finish=None),  # a server without reasons
        text("the reply", done=False),
        text("the reply", done=False, usage=None),
        replace(text("the reply", usage=None, done=False), cut=True),  # only the usage is lost
        chunks(
            *(
                f"data:{json.dumps(event)}\r\n\r\n" if event != DONE else event
                for event in text("the reply").events
            )
        ),
        chunks(": keep-alive\n\n", "event: ping\ndata:\n\n", *text("the reply").events),
        chunks({"type": "ping"}, *text("the reply").events),
        chunks(*text("the reply", finish="stop").events[:-1], "data: [DONE]"),  # no line end after it
        raw(
            json.dumps(
                {"choices": [{"message": {"content": "the reply"}, "finish_reason": "stop"}], "usage": USAGE},
                indent=1,
            ).encode(),
            kind="application/json",
        ),  # a server that does not stream
    ],
)
def test_unusual_streams_that_are_complete(serve: Start, script: Behaviour) -> None:
    reply, pieces = call(model_of(serve(script)))
    assert (reply.text, "".join(pieces), reply.stop) == ("the reply", "the reply", "end")


def test_characters_cut_in_two(serve: Start) -> None:
    whole = "a\u2028b\x85c \U0001f600 é"
    line = f"data: {json.dumps(chunk({'delta': {'content': whole}}), ensure_ascii=False)}\n\n".encode()
    halves = [chunk({"delta": {"content": half}}) for half in ("\ud83d", "\ude00!", "\ud83d")]
    bad = b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'
    split = [line[at : at + 1] for at in range(len(line))]
    server = serve(chunks(*split, *halves, bad, chunk({"delta": {}, "finish_reason": "stop"})))
    reply, pieces = call(model_of(server))
    assert reply.text == "".join(pieces) == whole + "\U0001f600!\ufffd\ufffd"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (error_chunk("partial", code=502, message="Provider returned error"), "502: Provider returned error"),
        (error_chunk(type="overloaded_error", message="busy"), "overloaded"),
        (error_chunk("partial", message="no code at all"), "500: no code at all"),
        (chunks('event: error\ndata: {"error": "it broke"}\n\n'), "it broke"),
        (text("half", finish="error"), "failed during the reply"),
        (
            chunks(chunk({"delta": {"content": ""}, "error": {"code": 502, "message": "upstream"}})),
            "502: upstream",
        ),
        (raw(b'{"error": {"message": "Internal", "code": 503}}'), "503: Internal"),
        (
            raw(b"<html><head><title>502 Bad Gateway</title></head></html>", code=502),
            "a web page: 502 Bad Gateway",
        ),
    ],
)
def test_transient_failures_are_retryable(serve: Start, script: Behaviour, words: str) -> None:
    assert words in str(refused(model_of(serve(script)), Retryable))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (status(401, "Incorrect API key provided"), f"rejected the key (Incorrect API key provided): set a valid one as {KEY_VARIABLE}"),
        (status(401, f"no such key: {KEY}"), "[key]"),
        (raw(b'[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}]', code=400), "rejected the key"),
        (status(429, "You exceeded your current quota", error="insufficient_quota"), "cannot pay"),
        (status(400, "This model's maximum context length is 8 tokens", error="context_length_exceeded"), "prompt is too long"),
        (raw(b'{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}', code=400), "prompt is too long"),
        (raw(b'{"object":"error","message":{"detail":[{"msg":"bad role"}]}}', code=422), "bad role"),
        (raw(b'{"detail":"nope"}', code=400), "nope"),
        (status(500, "model requires more system memory (5 GiB) than is available"), "use a smaller model"),
        (raw(b"<!DOCTYPE html><title>Sign in</title>", kind="text/html"), "does not speak Chat Completions (a web page: Sign in): check providers.testing.base_url"),
        (raw(b'{"hello": "I am a proxy"}'), "does not speak"),
        (raw(b"\xff\xfe\x00binary"), "does not speak"),
        (chunks('event: message_start\ndata: {"type": "message_start"}\n\n'), "does not speak"),
        (chunks('{"message": {"content": "a"}, "done": false}\n', '{"done": true}\n'), "does not speak"),
        (status(404, "no such path"), "/v1 has no Chat Completions API (404: no such path)"),
    ],
)  # fmt: skip
def test_permanent_failures_say_what_to_do(serve: Start, script: Behaviour, words: str) -> None:
    error = str(refused(model_of(serve(script))))
    assert words in error
    assert KEY[:12] not in error


def test_a_base_url_without_its_end(serve: Start) -> None:
    server = serve("ok")
    error = refused(OpenAIModel(server.endpoint("ollama", path=""), "m"))
    assert f"{server.url} has no Chat Completions API (404: 404 page not found)" in str(error)
    assert (
        "check OLLAMA_HOST or providers.ollama.base_url in your configuration, which usually ends in /v1"
        in str(error)
    )


@pytest.mark.parametrize(
    "script",
    [
        status(400, "x is not a valid model ID"),
        status(404, "models/x is not found for API version v1main"),
        status(404, 'model "x" not found, try pulling it first'),
    ],
)
def test_a_missing_model(serve: Start, script: Behaviour) -> None:
    server = serve([script, script])
    error = str(refused(model_of(server, name="x")))
    assert f"{server.url}/v1 has no testing/x (" in error and error.endswith("): check the name")
    error = str(refused(OpenAIModel(server.endpoint("ollama"), "x")))
    assert error.endswith("): run `ollama pull x` to get it")


def test_the_wait_requested_by_the_server(serve: Start) -> None:
    google = {"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "17s"}]}}
    server = serve(
        [
            status(429, retry_after=7),
            status(429, "Rate limit reached. Please try again in 1m2.5s. Visit"),
            status(429, "Please try again in 250ms."),
            raw(json.dumps([google]).encode(), code=429),
            status(429),
        ]
    )
    assert [refused(model_of(server), Retryable).retry_after for _ in range(5)] == [7, 62.5, 0.25, 17, None]


def test_no_proxy_for_local_servers(serve: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert call(model_of(serve("ok")))[0].text == "ok"


@pytest.mark.parametrize("url", ["ftp://host/v1", "http:///v1"])
def test_invalid_addresses(url: str) -> None:
    refused(OpenAIModel(Endpoint("mine", url), "m"))


def test_an_invalid_key(serve: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "two words")
    assert f"(environment {KEY_VARIABLE}) contains a line break" in str(refused(model_of(serve("ok"))))


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("openrouter", "mine"):
        own = {"mine": {"base_url": "https://host.example/v1", "api_key_env": "OPENROUTER_API_KEY"}}
        monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
        found = endpoint(name, own)
        assert found is not None
        assert f"no key for {name}: export OPENROUTER_API_KEY=..." in str(refused(OpenAIModel(found, "m")))


def test_an_untrusted_certificate(serve: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    pem = tmp_path / "own.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         "1", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", pem, "-out", tmp_path / "crt"],
        check=True, capture_output=True,
    )  # fmt: skip
    pem.write_bytes(pem.read_bytes() + (tmp_path / "crt").read_bytes())
    server = serve("ok")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    address = server.endpoint()
    address = replace(address, base_url=address.base_url.replace("http:", "https:"))
    assert "is not trusted" in str(refused(OpenAIModel(address, "m")))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "crt"))
    monkeypatch.setenv(KEY_VARIABLE, "another")  # the client is made once for one key
    assert call(OpenAIModel(address, "m"))[0].text == "ok"
    plain = replace(address, base_url=serve("ok").url.replace("http:", "https:") + "/v1")
    assert "cannot reach" in str(refused(OpenAIModel(plain, "m"), Retryable))


def test_a_prompt_that_was_cut_in_silence(serve: Start) -> None:
    prompt = " ".join(f"word{n}" for n in range(3000))
    half = serve(text("a reply", usage={"prompt_tokens": 2048, "completion_tokens": 3}))
    error = str(
        refused(OpenAIModel(half.endpoint("ollama", "truncates", "ollama_api"), "m"), request=ask(prompt))
    )
    assert "read only 2,048 of the roughly" in error
    assert "OLLAMA_CONTEXT_LENGTH=16384 ollama serve" in error
    assert (
        call(model_of(half), ask(prompt))[0].text == "a reply"
    )  # a server that reports a prompt that is too long
    ruled = ask("=" * 30_000 + prompt[:1000])  # few tokens, many bytes
    assert call(OpenAIModel(half.endpoint("ollama", "truncates"), "m"), ruled)[0].text == "a reply"


def test_a_prompt_that_would_be_cut(serve: Start) -> None:
    prompt = ask(" ".join(f"word{n}" for n in range(3000)))
    server = serve("ok", {"/api/ps": {"models": [{"name": "m:latest", "context_length": 4096}]}})
    ollama = OpenAIModel(server.endpoint("ollama", "truncates", "ollama_api"), "m")
    assert "gives m a context of 4,096 tokens, but the prompt has about" in str(
        refused(ollama, request=prompt)
    )
    assert server.requests == []
    assert call(ollama)[0].text == "ok"
