"""Rejected fields are omitted in the next attempt, and reported once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import ModelError
from repoagent.llm.model import Message, Part, Request, Retryable, Wishes
from repoagent.llm.providers.errors import parse_error
from repoagent.llm.providers.openai import OpenAIModel
from repoagent.llm.providers.openai_request import learn
from tests.llm.ask import ask
from tests.llm.providers.openai_server import Behaviour, Server, openai_server, raw, status, text

REQUEST = replace(ask(), max_output_tokens=5000, grammar='root ::= "x"')
WISHES = Wishes(effort="max", temperature=0.2, stop=("END",))
TRAITS = ("grammar", "key_optional")


def negotiate(
    *rejections: Behaviour, traits: tuple[str, ...] = TRAITS
) -> tuple[list[str], list[Mapping[str, Any]]]:
    """The message after each rejection, and the bodies of all requests."""
    with openai_server([*rejections, text("ok"), text("ok")]) as server:
        model = OpenAIModel(server.endpoint("testing", *traits, keyed=False), "m", WISHES)
        said = []
        for _ in rejections:
            with pytest.raises(Retryable) as raised:
                model.complete(REQUEST, lambda piece: None)
            assert raised.value.retry_after == 0
            said.append(str(raised.value))
        for _ in range(2):  # the second time without another rejection
            assert model.complete(REQUEST, lambda piece: None).text == "ok"
        bodies = [request.body for request in server.requests]
        assert bodies[-1] == bodies[-2]
        return said, bodies


LENGTH = "a limit on the length of a reply"


def pydantic(*names: str) -> Behaviour:
    """In the format of Mistral and vLLM."""
    entry = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
    detail = [{**entry, "loc": ["body", name]} for name in names]
    body = {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"}
    return raw(json.dumps(body).encode(), code=422)


@pytest.mark.parametrize(
    ("rejection", "field", "words"),
    [
        (status(400, "Unsupported value: 'temperature' does not support 0.2 with this model.", param="temperature", error="unsupported_value"), "temperature", "temperature"),
        (status(400, "`temperature` is deprecated for this model."), "temperature", "temperature"),
        (status(400, "unknown field stream_options"), "stream_options", "stream_options"),
        (pydantic("stream_options"), "stream_options", "stream_options"),
        (status(400, "Unsupported parameter: 'stop' is not supported with this model.", param="stop"), "stop", "stop"),
        (status(400, "Argument not supported on this model: stop"), "stop", "stop"),
        (status(400, "Failed to parse grammar"), "grammar", "grammar"),
        (status(400, "Unsupported value: 'reasoning_effort' does not support it", param="reasoning_effort"), "reasoning_effort", "effort"),
        (status(400, "max_tokens is too large: 5000. This model supports at most 4096 completion tokens", param="max_tokens"), "max_tokens", LENGTH),
        (status(400, "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]"), "max_tokens", LENGTH),
        (status(400, "This model's maximum context length is 9000 tokens, but max_tokens is 5000: too large"), "max_tokens", LENGTH),
        (pydantic("stream_options", "temperature"), "stream_options temperature", "stream_options and temperature"),
    ],
)  # fmt: skip
def test_rejected_fields_are_left_out(rejection: Behaviour, field: str, words: str) -> None:
    said, (first, second, _) = negotiate(rejection)
    fields = field.split()
    assert said == [
        f"testing/m does not support {words}: continuing without {'them' if fields[1:] else 'it'}"
    ]
    assert first.keys() >= {*fields}
    assert second == {key: value for key, value in first.items() if key not in fields}


@pytest.mark.parametrize(
    ("rejection", "traits", "before", "after"),
    [
        (status(400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", error="unsupported_parameter"), (), "max_tokens", "max_completion_tokens"),
        (pydantic("max_completion_tokens"), ("max_completion_tokens",), "max_completion_tokens", "max_tokens"),
    ],
)  # fmt: skip
def test_the_other_name_of_the_limit(
    rejection: Behaviour, traits: tuple[str, ...], before: str, after: str
) -> None:
    said, (first, second, _) = negotiate(rejection, traits=("key_optional", *traits))
    assert said == [f"testing/m does not support {before}: continuing with {after}"]
    assert (first[before], before in second, second[after]) == (first[before], False, first[before])


def test_a_model_without_a_system_role() -> None:
    for rejection in (
        status(500, "Jinja Exception: System role not supported"),
        status(400, "Developer instruction is not enabled for models/gemma-3-27b-it"),
    ):
        said, (first, second, _) = negotiate(rejection)
        assert said == ["testing/m does not support system role: continuing without it"]
        assert [message["role"] for message in first["messages"]] == ["system", "user"]
        assert second["messages"] == [{"role": "user", "content": "You edit.\n\nmake it faster"}]


def test_other_errors_leave_the_fields_alone(serve: Callable[..., Server]) -> None:
    rejections = [
        status(400, "messages: text is empty"),
        status(400, "This model's maximum context length is 8 tokens"),
        status(400, "Please stop sending unsupported content"),
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


def test_rejected_cache_breakpoints(serve: Callable[..., Server]) -> None:
    request = Request((Part("system", cache=True),), (Message("user", (Part("go"),)),))
    server = serve([status(400, "cache_control: Extra inputs are not permitted"), text("ok")])
    model = OpenAIModel(server.endpoint("openrouter", "breakpoints", keyed=False), "anthropic/claude")
    with pytest.raises(Retryable, match="does not support cache_control"):
        model.complete(request, lambda piece: None)
    model.complete(request, lambda piece: None)
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
