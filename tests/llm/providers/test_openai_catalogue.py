"""Models, availability and windows of servers, from a real server on this machine."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from repoagent.errors import ModelError
from repoagent.llm.providers.endpoints import Endpoint, Key, ServerBackend, context_of, list_models
from tests.llm.providers.openai_server import KEY, KEY_VARIABLE, openai_server, raw, status


def test_models() -> None:
    openrouter = {"data": [{"id": "a/one"}, {"id": "models/two", "pricing": None}, {"no": "id"}, "text"]}
    for page, expected in ((openrouter, ["a/one", "two"]), ([{"id": "b"}], ["b"])):  # Together: a bare list
        with openai_server(pages={"/v1/models": page}) as server:
            assert list_models(server.endpoint(keyed=False)) == expected


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (status(401, f"bad {KEY}"), "the server rejected the key (given)"),
        (status(404), "returned 404: check the base URL"),
        (status(500), "returned 500"),
        (raw(b"<html>hello</html>"), "is not a model server"),
        ({"object": "list"}, "did not return a list of models"),
        (raw(b"3"), "did not return a list of models"),
    ],
)
def test_invalid_lists_of_models(page: Any, words: str) -> None:
    with openai_server(pages={"/v1/models": page}) as server, pytest.raises(ModelError) as raised:
        list_models(server.endpoint(keyed=False), Key(KEY, "given"))
    assert words in str(raised.value)
    assert KEY not in str(raised.value)


def problem(server: Endpoint) -> str:
    row = {"base_url": server.base_url, "api_key_env": KEY_VARIABLE}
    settings: Any = SimpleNamespace(family=lambda name: {server.name: row})
    try:
        return ServerBackend(server.name).check(settings, "").problem
    except ModelError as error:
        return str(error)


def test_why_an_endpoint_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    with openai_server(pages={"/v1/models": {"data": []}}) as server:
        ollama = server.endpoint("ollama")
        assert problem(ollama) == ""
    assert problem(ollama).startswith(f"no server at {server.url}/v1: start it with `ollama serve`, or check")
    assert "cannot reach http" in problem(Endpoint("mine", "http://no-such-host.invalid/v1"))
    monkeypatch.setenv(KEY_VARIABLE, KEY + "\n")
    assert "invalid character" in problem(ollama)
    monkeypatch.delenv(KEY_VARIABLE)
    assert problem(Endpoint("mine", "http://host.invalid/v1")) == f"no key: set {KEY_VARIABLE}"


SHOW = {
    "parameters": 'stop  "x"\nnum_ctx                        16384\n',
    "model_info": {"llama.context_length": 131_072},
}


@pytest.mark.parametrize(
    ("traits", "pages", "expected"),
    [
        (["ollama_api"], {"/api/ps": {"models": [{"name": "m:latest", "context_length": 4096}]}, "/api/show": SHOW}, 4096),
        (["ollama_api"], {"/api/ps": {"models": [{"name": "other", "context_length": 4096}]}, "/api/show": SHOW}, 16384),
        (["ollama_api"], {"/api/ps": {"models": []}, "/api/show": {"parameters": "stop x"}}, None),
        (["ollama_api"], {}, None),
        (["lmstudio_api"], {"/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 8192, "max_context_length": 99}]}}, 8192),
        (["lmstudio_api"], {"/api/v0/models": {"data": [{"id": "m", "max_context_length": 99}]}}, None),
        (["props"], {"/props": {"default_generation_settings": {"n_ctx": 2048}}}, 2048),
        (["props"], {"/props": {"default_generation_settings": None}}, None),
        ([], {"/v1/models": {"data": [{"id": "x", "max_model_len": 1}, {"id": "m", "max_model_len": 32768}]}}, 32768),
        ([], {"/v1/models": {"data": [{"id": "m"}]}, "/props": {"default_generation_settings": {"n_ctx": 2048}}}, 2048),
        ([], {"/v1/models": raw(b"<html>")}, None),
        (["props"], {"/props": raw(b"[1]")}, None),
    ],
)  # fmt: skip
def test_context(traits: list[str], pages: dict[str, Any], expected: int | None) -> None:
    with openai_server(pages=pages) as server:
        assert context_of(server.endpoint("testing", *traits, keyed=False), "m") == expected
        asked = len(server.paths)
        assert context_of(server.endpoint("testing", *traits, keyed=False, local=False), "m") is None
        assert len(server.paths) == asked  # another machine is not asked


def test_the_query_for_the_context_has_a_time_limit() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert context_of(Endpoint("mine", url, local=True), "m", seconds=0.4) is None
        assert time.monotonic() - started < 2
