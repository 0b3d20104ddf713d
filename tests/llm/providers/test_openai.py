"""The OpenAI-compatible provider, through the real SDK, against a real server on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import ModelError
from repoagent.llm.model import Message, Part, Request, Retryable, Usage, Wishes
from repoagent.llm.providers.endpoints import Endpoint, endpoint
from repoagent.llm.providers.errors import parse_error
from repoagent.llm.providers.openai import OpenAIModel
from repoagent.llm.providers.openai_request import learn
from tests.llm.conftest import Put, Start
from tests.llm.helpers import ask, call, certified, refused
from tests.llm.providers.openai_server import (
    KEY,
    KEY_VARIABLE,
    USAGE,
    Server,
    chunk,
    chunks,
    error_chunk,
    openai_server,
    raw,
    status,
    text,
)  # fmt: skip
from tests.llm.providers.streaming_server import Behaviour

DONE = "data: [DONE]\n\n"


def model_of(server: Server, *traits: str, name: str = "test-model", **wishes: Any) -> OpenAIModel:
    return OpenAIModel(server.endpoint("testing", *traits), name, Wishes(**wishes))


def test_the_content_of_a_request(serve: Start) -> None:
    server = serve("ok")
    turns = (("user", "ab"), ("assistant", "said"), ("user", "go"))
    said = tuple(Message(role, tuple(map(Part, text))) for role, text in turns)
    system = (Part("You "), Part("edit.", cache=True))
    request = Request(system, said, max_output_tokens=5000, grammar="root ::= .*")
    call(model_of(server, effort="low", temperature=0.0), request)
    sent = server.requests[0]
    assert sent.turns == [("system", "You edit."), *turns]
    body = dict(sent.body)
    assert body.pop("messages")[1] == {"role": "user", "content": "ab"}
    assert body.pop("max_tokens") > 5000  # additional tokens for thinking
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    assert body == {"model": "test-model", **streamed, "reasoning_effort": "low", "temperature": 0.0}


@pytest.mark.parametrize(("traits", "name", "wishes", "fields"), [
    ((), "m", {}, {"max_tokens": 5000, "grammar": None, "reasoning_effort": None, "temperature": None}),
    (("max_completion_tokens",), "m", {}, {"max_completion_tokens": 5000}),
    (("max_completion_tokens",), "gpt-5.2", {}, {"max_completion_tokens": 37_000}),
    (("grammar",), "m", {}, {"grammar": "root ::= .*"}),
    (("usage_unasked",), "m", {}, {"stream_options": None}),
    (("reasoning_object",), "m", {"effort": "high"}, {"reasoning": {"effort": "high"}, "reasoning_effort": None}),
])  # fmt: skip
def test_real_differences_between_servers(
    serve: Start, traits: tuple[str, ...], name: str, wishes: dict[str, str], fields: dict[str, object]
) -> None:
    server = serve("ok")
    request = replace(ask(), max_output_tokens=5000, grammar="root ::= .*")
    call(model_of(server, *traits, name=name, **wishes), request)
    assert {field: server.requests[0].body.get(field) for field in fields} == fields


def test_cache_breakpoints(serve: Start) -> None:
    server = serve("ok")
    parts = tuple(Part(f"part {n}\n", cache=n % 2 == 0) for n in range(12))
    system = (Part("\n"), Part("system", cache=True))
    request = Request(system, (Message("user", (*parts, Part("  ", cache=True))),))
    claude = model_of(server, "breakpoints", name="anthropic/claude", cache="1h")
    gpt = model_of(server, "breakpoints", name="openai/gpt")
    for model in (claude, gpt, replace(claude, wishes=Wishes(cache="off"))):
        call(model, request)
    marked, *plain = [sent.body["messages"] for sent in server.requests]
    assert plain[0] == plain[1]
    assert isinstance(plain[0][0]["content"], str)
    assert server.requests[0].turns == server.requests[1].turns
    kept = {"type": "ephemeral", "ttl": "1h"}
    cached = [block["text"] for block in marked[1]["content"] if block.get("cache_control") == kept]
    assert cached == ["part 6\n", "part 8\n", "part 10\n", "part 11\n  "]
    assert "cache_control" not in marked[0]["content"][0]
    assert claude.takes == {"effort", "temperature", "cache", "tools"}
    assert model_of(server).takes == {"effort", "temperature", "tools"}


def test_the_account_of_openai_is_not_sent_to_other_servers(serve: Start, put: Put) -> None:
    names = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
    put(**dict.fromkeys(names, "of-openai"))
    put(OPENAI_CUSTOM_HEADERS="X-Mine: of-openai\nAuthorization: of-openai")
    server = serve("ok")
    call(OpenAIModel(server.endpoint(keyed=False), "test-model"))
    assert "authorization" not in server.requests[0].headers
    assert "of-openai" not in str(server.requests[0].headers)
    call(OpenAIModel(server.endpoint("openai"), "test-model"))
    assert server.requests[1].headers["openai-organization"] == "of-openai"
    assert server.requests[1].headers["authorization"] == f"Bearer {KEY}"


def test_finish_reasons_and_why_a_model_refuses(serve: Start) -> None:
    reasons = {
        **dict.fromkeys(("stop", "eos", "tool_calls"), "end"),
        **dict.fromkeys(("length", "model_context_window_exceeded"), "length"),
        **dict.fromkeys(("content_filter", "content_filter: RECITATION"), "refusal"),
    }
    model = model_of(serve([text("some text", finish=finish) for finish in reasons]))
    assert {finish: call(model).stop for finish in reasons} == reasons
    deltas = [chunk({"delta": {"refusal": piece}}) for piece in ("I can't ", "do that")]
    model = model_of(serve(chunks(*deltas, chunk({"delta": {}, "finish_reason": "stop"}), DONE)))
    pieces: list[str] = []
    reply = model.complete(ask(), pieces.append)
    assert (reply.stop, reply.text, pieces) == ("refusal", "I can't do that", [])


def test_thinking_is_counted_but_not_part_of_the_reply(serve: Start) -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "so " * 99}]}
    answer = {"delta": {"content": "the answer"}, "finish_reason": "stop"}
    scripts = [
        text("the answer", thinking="let me see " * 30, usage=None),
        text("<think>let me see " + "so " * 90 + "</think>\n\nthe answer", usage=None),
        chunks(
            chunk({"delta": {"content": [thought]}}),
            chunk({**answer, "delta": {"content": [{"type": "text", "text": "the answer"}]}}),
        ),
        chunks(chunk({"delta": {"reasoning": "so " * 99, "reasoning_content": "so " * 99}}), chunk(answer)),
    ]
    model = model_of(serve(scripts))
    for _ in scripts:
        reply = call(model)
        assert (reply.text, reply.usage.estimated) == ("the answer", True)
        assert 90 < reply.usage.output < 130


def test_think_blocks(serve: Start) -> None:
    replies = {
        "<think>only thought": "",
        "<think>a</think>": "",
        " \n<think>a</think>\r\n\n  b</think>": "  b</think>",
        "<thinking>a</thinking>b": "<thinking>a</thinking>b",
        "see <think>a</think>": "see <think>a</think>",
        "<thi": "<thi",
        "  ": "  ",
    }
    model = model_of(serve([text(reply, count=len(reply)) for reply in replies]))
    assert {reply: call(model).text for reply in replies} == replies


COUNTS = {"prompt_tokens": 10, "completion_tokens": 5}


@pytest.mark.parametrize(("usage", "at", "expected"), [
    *((USAGE, at, Usage(100, 20)) for at in ("last", "finish", "each", "first")),
    ({**COUNTS, "total_tokens": 40}, "last", Usage(10, 30)),  # xAI, Google: only the total has the thinking
    ({**COUNTS, "prompt_cache_hit_tokens": 4}, "last", Usage(6, 5, 4)),  # DeepSeek, OpenRouter
    ({**COUNTS, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}}, "last", Usage(5, 5, 2, 3)),
    ({**COUNTS, "prompt_tokens_details": {"cached_tokens": 99}}, "last", Usage(10, 5)),  # more than the prompt
    ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, "last", None),
    ({"prompt_tokens": -1, "completion_tokens": 1.5, "prompt_tokens_details": None}, "last", None),
    ({"prompt_tokens": "700", "completion_tokens": True, "prompt_tokens_details": []}, "last", None),
    ([1], "last", None),
])  # fmt: skip
def test_usage_is_counted_or_estimated(serve: Start, usage: Any, at: str, expected: Usage | None) -> None:
    model = model_of(serve(text("0123456789" * 30, usage=usage, usage_at=at)))
    got = call(model, ask("x" * 3000)).usage
    if expected is None:
        assert got.estimated and 500 < got.input < 2000 and 50 < got.output < 200
    else:
        assert got == expected


def test_implausible_counts_do_not_replace_a_count(serve: Start) -> None:
    events = text("some text", usage=None).events
    counts = [{"prompt_tokens": 90, "completion_tokens": n, "total_tokens": 90 + n} for n in (1, 4, 9)]
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    counted = [{**event, "usage": usage} for event, usage in zip(events, [*counts, zeros], strict=False)]
    assert call(model_of(serve(chunks(*counted, *events[4:])))).usage == Usage(90, 9)


def test_the_cost_of_a_call(serve: Start) -> None:
    costs: list[dict[str, Any]] = [{"cost": 0.0123}, {"cost": 0, "is_byok": True}, {"cost": "0.1"}, {}]
    server = serve([text("hi", usage={**USAGE, **cost}) for cost in [*costs, costs[0]]])
    dollars = [call(model_of(server, "cost")).usage.dollars for _ in costs]
    assert dollars == [0.0123, None, None, None]
    assert call(model_of(server)).usage.dollars is None


def test_unusual_streams_that_are_complete(serve: Start) -> None:
    events = text("the reply").events
    whole = {"choices": [{"message": {"content": "the reply"}, "finish_reason": "stop"}], "usage": USAGE}
    scripts = [
        text("the reply", finish=None),  # a server without reasons
        text("the reply", done=False),
        text("the reply", done=False, usage=None),
        replace(text("the reply", usage=None, done=False), cut=True),  # only the usage is lost
        chunks(*(f"data:{json.dumps(event)}\r\n\r\n" for event in events[:-1]), DONE),
        chunks(": keep-alive\n\n", "event: ping\ndata:\n\n", *events),
        chunks({"type": "ping"}, *events),
        chunks(*events[:-1], "data: [DONE]"),  # no line end after it
        raw(json.dumps(whole, indent=1).encode(), kind="application/json"),  # a server that does not stream
    ]
    model = model_of(serve(scripts))
    for script in scripts:
        reply = call(model)
        assert (reply.text, reply.stop) == ("the reply", "end"), script


INCOMPLETE = [
    chunks(),
    chunks(DONE),
    chunks(": ping\n\n"),
    chunks("retry: 3\n\n"),
    chunks(chunk({"delta": {"role": "assistant", "content": ""}}), DONE),
    chunks(chunk({"delta": {"content": "half"}}), 'data: {"id": "x", "choi'),
    text("half a reply", finish=None, usage=None, done=False),
]
TRANSIENT = [
    (error_chunk("partial", code=502, message="Provider returned error"), "502: Provider returned error"),
    (error_chunk(type="overloaded_error", message="busy"), "overloaded"),
    (error_chunk("partial", message="no code at all"), "500: no code at all"),
    (chunks('event: error\ndata: {"error": "it broke"}\n\n'), "it broke"),
    (text("half", finish="error"), "failed during the reply"),
    (chunks(chunk({"delta": {"content": ""}, "error": {"code": 502, "message": "upstream"}})), "502: upstream"),
    (raw(b'{"error": {"message": "Internal", "code": 503}}'), "503: Internal"),
    (raw(b"<html><head><title>502 Bad Gateway</title></head></html>", code=502), "502: a web page"),
]  # fmt: skip
PERMANENT = [
    (status(401, "Incorrect API key provided"), f"rejected the key (Incorrect API key provided): set a valid one as {KEY_VARIABLE}"),
    (status(401, f"no such key: {KEY}"), "[key]"),
    (raw(b'[{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key."}}]', code=400), "rejected the key"),
    (status(429, "You exceeded your current quota", error="insufficient_quota"), "cannot pay"),
    (status(400, "This model's maximum context length is 8 tokens", error="context_length_exceeded"), "prompt is too long"),
    (raw(b'{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}', code=400), "prompt is too long"),
    (raw(b'{"object":"error","message":{"detail":[{"msg":"bad role"}]}}', code=422), "bad role"),
    (raw(b'{"detail":"nope"}', code=400), "nope"),
    (status(500, "model requires more system memory (5 GiB) than is available"), "use a smaller model"),
    (raw(b"<!DOCTYPE html><title>Sign in</title>", kind="text/html"), "does not speak Chat Completions (a web page): check providers.testing.base_url"),
    (raw(b'{"hello": "I am a proxy"}'), "does not speak"),
    (raw(b"\xff\xfe\x00binary"), "does not speak"),
    (chunks('event: message_start\ndata: {"type": "message_start"}\n\n'), "does not speak"),
    (chunks('{"message": {"content": "a"}, "done": false}\n', '{"done": true}\n'), "does not speak"),
    (status(405, "Method Not Allowed"), "(Method Not Allowed): check the name, or check providers.testing.base_url in your configuration"),
    (status(404, "no such path"), "/v1 has no testing/test-model (no such path): check the name, or check providers.testing.base_url in your configuration"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "kind"),
    [([*((one, "was cut off") for one in INCOMPLETE), *TRANSIENT], Retryable), (PERMANENT, ModelError)],
    ids=["transient", "permanent"],
)
def test_failures(serve: Start, rows: list[tuple[Behaviour, str]], kind: type[ModelError]) -> None:
    server = serve([script for script, _ in rows])
    for _, words in rows:
        assert words in str(refused(model_of(server), kind))


def test_a_missing_model_or_an_address_without_its_end(serve: Start) -> None:
    server = serve("ok")
    error = str(refused(OpenAIModel(server.endpoint("ollama", path=""), "m")))
    assert f"{server.url} has no ollama/m (404 page not found): run `ollama pull m`, or check" in error
    address = "check OLLAMA_HOST or providers.ollama.base_url in your configuration"
    assert f"{address}, which usually ends in /v1" in error
    for code, message in (
        (400, "x is not a valid model ID"),
        (404, "models/x is not found for API version v1main"),
        (404, 'model "x" not found, try pulling it first'),
    ):
        server = serve(status(code, message))
        error = str(refused(model_of(server, name="x")))
        assert f"{server.url}/v1 has no testing/x (" in error
        assert "): check the name, or check providers." in error
        error = str(refused(OpenAIModel(server.endpoint("ollama"), "x")))
        assert "): run `ollama pull x`, or check" in error


def test_the_wait_requested_by_the_server(serve: Start) -> None:
    google = {"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "17s"}]}}
    waits = [
        (status(429, "Rate limit reached. Please try again in 1m2.5s. Visit"), 62.5),
        (status(429, "Please try again in 250ms."), 0.25),
        (raw(json.dumps([google]).encode(), code=429), 17),
    ]
    model = model_of(serve([script for script, _ in waits]))
    assert [refused(model, Retryable).retry_after for _ in waits] == [seconds for _, seconds in waits]


def test_no_proxy_for_local_servers(serve: Start, put: Put) -> None:
    put(HTTP_PROXY="http://127.0.0.1:9", NO_PROXY="")
    assert call(model_of(serve("ok"))).text == "ok"


def test_wrong_settings(serve: Start, put: Put) -> None:
    for url in ("ftp://host/v1", "http:///v1"):
        refused(OpenAIModel(Endpoint("mine", url), "m"))
    put(**{KEY_VARIABLE: "two words"})
    assert f"(environment {KEY_VARIABLE}) contains a line break" in str(refused(model_of(serve("ok"))))
    own = {"mine": {"base_url": "https://host.example/v1", "api_key_env": "OPENROUTER_API_KEY"}}
    for name in ("openrouter", "mine"):
        found = endpoint(name, own)
        assert found is not None
        assert f"no key for {name}: set OPENROUTER_API_KEY to" in str(refused(OpenAIModel(found, "m")))


def test_an_untrusted_certificate(serve: Start, tmp_path: Path, put: Put) -> None:
    context, certificate = certified("IP:127.0.0.1", tmp_path)
    server = serve("ok")
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    address = server.endpoint()
    address = replace(address, base_url=address.base_url.replace("http:", "https:"))
    assert "is not trusted" in str(refused(OpenAIModel(address, "m")))
    put(SSL_CERT_FILE=certificate, **{KEY_VARIABLE: "another"})  # the client is made once for one key
    assert call(OpenAIModel(address, "m")).text == "ok"
    plain = replace(address, base_url=serve("ok").url.replace("http:", "https:") + "/v1")
    assert "cannot reach" in str(refused(OpenAIModel(plain, "m"), Retryable))


def test_a_prompt_that_was_cut_in_silence(serve: Start) -> None:
    prompt = " ".join(f"word{n}" for n in range(3000))
    half = serve(text("a reply", usage={"prompt_tokens": 2048, "completion_tokens": 3}))
    ollama = OpenAIModel(half.endpoint("ollama", "truncates", "ollama_api"), "m")
    error = str(refused(ollama, request=ask(prompt)))
    assert "read only 2,048 of the roughly" in error
    assert "OLLAMA_CONTEXT_LENGTH=16384 ollama serve" in error
    assert call(model_of(half), ask(prompt)).text == "a reply"  # a server that reports a too long prompt
    ruled = ask("=" * 30_000 + prompt[:1000])  # few tokens, many bytes
    assert call(OpenAIModel(half.endpoint("ollama", "truncates"), "m"), ruled).text == "a reply"


# Rejected fields are omitted in the next attempt, and reported once.

REQUEST = replace(ask(), max_output_tokens=5000, grammar='root ::= "x"')
WISHES = Wishes(effort="max", temperature=0.2)
TRAITS = ("grammar", "key_optional")


def negotiate(*rejections: Behaviour) -> tuple[list[str], list[Mapping[str, Any]]]:
    """The message after each rejection, and the bodies of all requests."""
    with openai_server([*rejections, "ok", "ok"]) as server:
        model = OpenAIModel(server.endpoint("testing", *TRAITS, keyed=False), "m", WISHES)
        errors = [refused(model, Retryable, REQUEST) for _ in rejections]
        assert {error.retry_after for error in errors} == {0}
        for _ in range(2):  # the second time without another rejection
            assert call(model, REQUEST).text == "ok"
        bodies = [request.body for request in server.requests]
        assert bodies[-1] == bodies[-2]
        return [str(error) for error in errors], bodies


def pydantic(*names: str) -> Behaviour:
    """In the format of Mistral and vLLM."""
    entry = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
    detail = [{**entry, "loc": ["body", name]} for name in names]
    body = {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"}
    return raw(json.dumps(body).encode(), code=422)


@pytest.mark.parametrize(("rejection", "field", "words"), [
    (status(400, "Unsupported value: 'temperature' does not support 0.2 with this model.", param="temperature", error="unsupported_value"), "temperature", "temperature"),
    (status(400, "`temperature` is deprecated for this model."), "temperature", "temperature"),
    (status(400, "unknown field stream_options"), "stream_options", "stream_options"),
    (pydantic("stream_options"), "stream_options", "stream_options"),
    (status(400, "Failed to parse grammar"), "grammar", "grammar"),
    (status(400, "Unsupported value: 'reasoning_effort' does not support it", param="reasoning_effort"), "reasoning_effort", "effort"),
    (pydantic("stream_options", "temperature"), "stream_options temperature", "stream_options and temperature"),
])  # fmt: skip
def test_rejected_fields_are_left_out(rejection: Behaviour, field: str, words: str) -> None:
    said, (first, second, _) = negotiate(rejection)
    fields = field.split()
    them = "them" if fields[1:] else "it"
    assert said == [f"testing/m does not support {words}: continuing without {them}"]
    assert first.keys() >= {*fields}
    assert second == {key: value for key, value in first.items() if key not in fields}


def test_a_limit_that_is_rejected_has_another_name_or_is_left_out() -> None:
    names = ("max_tokens", "max_completion_tokens")
    window = "This model's maximum context length is 9000 tokens, but you asked for 5000 in the completion"
    rejections = (status(400, "Unsupported parameter", param="max_tokens"), status(400, window))
    said, (first, second, third, _) = negotiate(*rejections)
    assert said == [f"testing/m does not support {name}: continuing without it" for name in names]
    assert first["max_tokens"] == second["max_completion_tokens"]
    assert not {*names} & third.keys() and "max_tokens" not in second


def test_other_errors_leave_the_fields_alone(serve: Start) -> None:
    rejections = [
        status(400, "messages: text is empty"),
        status(400, "This model's maximum context length is 8 tokens"),
        status(500, "unsupported: temperature"),
        status(401, "unsupported parameter: temperature"),
    ]
    server = serve(rejections)
    for _ in rejections:
        model = OpenAIModel(server.endpoint("testing", keyed=False), "m", WISHES)
        with pytest.raises(ModelError) as raised:
            model.complete(REQUEST, lambda piece: None)
        assert "continuing" not in str(raised.value)
        assert not model.without


def test_rejected_cache_breakpoints(serve: Start) -> None:
    request = Request((Part("system", cache=True),), (Message("user", (Part("go"),)),))
    server = serve([status(400, "cache_control: Extra inputs are not permitted"), text("ok")])
    model = OpenAIModel(server.endpoint("openrouter", "breakpoints", keyed=False), "anthropic/claude")
    assert "does not support cache_control" in str(refused(model, Retryable, request))
    call(model, request)
    assert server.requests[1].body["messages"][0]["content"] == "system"


FIELDS = st.sampled_from(["error", "message", "detail", "code", "type", "param", "metadata", "raw"])
BODY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=8,
)


@given(BODY, st.sampled_from([200, 400, 422, 500]))
def test_any_body_of_an_error_is_read(body: object, code: int) -> None:
    failed = parse_error(code, body)
    assert failed.status >= 400
    sent = {"model": "m", "messages": [{"role": "user", "content": "go"}], "temperature": 1}
    without: set[str] = set()
    assert (learn(failed, sent, without) is None) is (without == set())
