"""Names, addresses and keys of endpoints; models, availability and windows of a real server on this machine."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from repoagent.errors import ModelError, UsageError
from repoagent.llm.providers import http
from repoagent.llm.providers.endpoints import (
    Endpoint,
    ServerBackend,
    context_of,
    endpoint,
    endpoint_names,
    find_key,
    list_models,
)
from tests.llm.conftest import Put, Start
from tests.llm.providers.openai_server import KEY, KEY_VARIABLE, openai_server, raw, status

SECRET = "sk-secret-42"


def made(name: str, own: Mapping[str, Mapping[str, object]] | None = None) -> Endpoint:
    found = endpoint(name, own or {})
    assert found is not None
    return found


def test_every_ready_name_is_usable() -> None:
    known = {"openai", "google", "openrouter", "together", "groq", "mistral", "deepseek", "xai"}
    assert known < set(endpoint_names())
    for name in endpoint_names():
        ready = made(name)
        assert ready.name == name and ready.key_variables
        assert ready.needs_key is not ready.local
        assert ready.base_url.startswith("http://127.0.0.1" if ready.local else "https://")
    local = {name for name in endpoint_names() if made(name).local}
    assert local == {"ollama", "llamacpp", "lmstudio", "vllm"}
    assert made("google").key_variables == ("GEMINI_API_KEY", "GOOGLE_API_KEY")


def test_a_users_own_row_adds_and_overrides() -> None:
    own: dict[str, dict[str, object]] = {
        "mine": {"base_url": "https://host.example/v1/", "api_key_env": "MY_KEY"},
        "near": {"base_url": "http://[::1]:9/v1", "traits": ["grammar"]},
        "openai": {"base_url": "http://localhost:4000"},
    }
    assert made("mine", own) == Endpoint("mine", "https://host.example/v1", ("MY_KEY",))
    near = Endpoint("near", "http://[::1]:9/v1", local=True, traits=frozenset({"grammar"}))
    assert made("near", own) == near
    proxied = made("openai", own)
    assert (proxied.base_url, proxied.local) == ("http://localhost:4000", True)
    assert proxied.key_variables == ("OPENAI_API_KEY",)
    assert endpoint("unknown", own) is None
    assert endpoint("half", {"half": {"api_key_env": "X"}}) is None


def test_addresses_of_the_environment(put: Put) -> None:
    put(OPENAI_BASE_URL="https://proxy.example/v1/")
    assert made("openai").base_url == "https://proxy.example/v1"
    own = {"openai": {"base_url": "https://mine.example/v1"}}
    assert made("openai", own).base_url == "https://mine.example/v1"
    put(OPENAI_BASE_URL="proxy.example")
    with pytest.raises(UsageError, match="OPENAI_BASE_URL is not a URL"):
        endpoint("openai", {})


@pytest.mark.parametrize(("host", "expected", "local"), [
    ("", "http://127.0.0.1:11434/v1", True),
    ("0.0.0.0", "http://127.0.0.1:11434/v1", True),
    (":8000", "http://127.0.0.1:8000/v1", True),
    ("127.0.0.1:8000", "http://127.0.0.1:8000/v1", True),
    ("[::]:8000", "http://127.0.0.1:8000/v1", True),
    ("[::1]", "http://[::1]:11434/v1", True),
    ("gpu-box", "http://gpu-box:11434/v1", False),
    ("http://gpu-box", "http://gpu-box:80/v1", False),
    ("https://ollama.example", "https://ollama.example:443/v1", False),
    ("https://ollama.example/sub/", "https://ollama.example:443/sub/v1", False),
    ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1", True),
])  # fmt: skip
def test_ollama_host(monkeypatch: pytest.MonkeyPatch, host: str, expected: str, local: bool) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    found = made("ollama")
    assert (found.base_url, found.local, found.needs_key) == (expected, local, False)


@pytest.mark.parametrize(("row", "words"), [
    ({"base_url": "host/v1"}, "providers.x.base_url in the configuration is not a URL ('host/v1')"),
    ({"base_url": "http://[::1/v1"}, "is not a URL"),
    ({"base_url": "http://host:port/v1"}, "is not a URL"),
    ({"base_url": "http://a b/v1"}, "is not a URL"),
    ({"base_url": f"htp://me:{SECRET}@host"}, "is not a URL ('htp://host')"),
    ({"base_url": "http://h", "traits": ["wings"]}, "unknown trait 'wings'"),
])  # fmt: skip
def test_rows_that_cannot_be_used(row: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as raised:
        endpoint("x", {"x": row})
    assert SECRET not in str(raised.value)


def test_where_a_key_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    google = made("google")
    assert find_key(google) == ("", "")
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    for key, expected in (("", (SECRET, "GOOGLE_API_KEY")), ("a", ("a", "GEMINI_API_KEY"))):
        monkeypatch.setenv("GEMINI_API_KEY", key)
        assert find_key(google) == expected


def test_models(serve: Start) -> None:
    openrouter = {"data": [{"id": "a/one"}, {"id": "models/two", "pricing": None}, {"no": "id"}, "text"]}
    for page, expected in ((openrouter, ["a/one", "two"]), ([{"id": "b"}], ["b"])):  # Together: a bare list
        assert list_models(serve((), {"/v1/models": page}).endpoint(keyed=False)) == expected


@pytest.mark.parametrize(("page", "words"), [
    (status(401, f"bad {KEY}"), f"rejected the key (environment {KEY_VARIABLE}): set a valid one as "),
    (status(404), "returned 404: check the base URL"),
    (status(500), "returned 500"),
    (raw(b"<html>hello</html>"), "is not a model server"),
    ({"object": "list"}, "did not return a list of models"),
    (raw(b"3"), "did not return a list of models"),
])  # fmt: skip
def test_invalid_lists_of_models(serve: Start, page: Any, words: str) -> None:
    with pytest.raises(ModelError, match=re.escape(words)) as raised:
        list_models(serve((), {"/v1/models": page}).endpoint())
    assert KEY not in str(raised.value)


def problem(server: Endpoint) -> str:
    row = {"base_url": server.base_url, "api_key_env": KEY_VARIABLE}
    settings: Any = SimpleNamespace(family=lambda name: {server.name: row})
    try:
        return ServerBackend(server.name).check(settings, "").problem
    except ModelError as error:
        return str(error)


def test_why_an_endpoint_is_unreachable(put: Put) -> None:
    put(**{KEY_VARIABLE: KEY})
    with openai_server(pages={"/v1/models": {"data": []}}) as server:
        ollama = server.endpoint("ollama")
        assert problem(ollama) == ""
    assert problem(ollama).startswith(f"no server at {server.url}/v1: start it with `ollama serve`, or check")
    assert "cannot reach http" in problem(Endpoint("mine", "http://no-such-host.invalid/v1"))
    put(**{KEY_VARIABLE: KEY + "\n"})
    assert "invalid character" in problem(ollama)
    put(**{KEY_VARIABLE: ""})
    assert problem(Endpoint("mine", "http://host.invalid/v1")) == f"no key: set {KEY_VARIABLE}"


SHOW = {"parameters": 'stop  "x"\nnum_ctx      16384\n', "model_info": {"llama.context_length": 131_072}}
PROPS = {"/props": {"default_generation_settings": {"n_ctx": 2048}}}


@pytest.mark.parametrize(("traits", "pages", "expected"), [
    (["ollama_api"], {"/api/ps": {"models": [{"name": "m:latest", "context_length": 4096}]}, "/api/show": SHOW}, 4096),
    (["ollama_api"], {"/api/ps": {"models": [{"name": "other", "context_length": 4096}]}, "/api/show": SHOW}, 16384),
    (["ollama_api"], {"/api/ps": {"models": []}, "/api/show": {"parameters": "stop x"}}, None),
    (["ollama_api"], {}, None),
    (["lmstudio_api"], {"/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 8192, "max_context_length": 99}]}}, 8192),
    (["lmstudio_api"], {"/api/v0/models": {"data": [{"id": "m", "max_context_length": 99}]}}, None),
    (["props"], PROPS, 2048),
    (["props"], {"/props": {"default_generation_settings": None}}, None),
    ([], {"/v1/models": {"data": [{"id": "x", "max_model_len": 1}, {"id": "m", "max_model_len": 32768}]}}, 32768),
    ([], {"/v1/models": {"data": [{"id": "m"}]}, **PROPS}, 2048),
    ([], {"/v1/models": raw(b"<html>")}, None),
    (["props"], {"/props": raw(b"[1]")}, None),
])  # fmt: skip
def test_context(serve: Start, traits: list[str], pages: dict[str, Any], expected: int | None) -> None:
    server = serve((), pages)
    assert context_of(server.endpoint("testing", *traits, keyed=False), "m") == expected
    asked = len(server.paths)
    assert context_of(server.endpoint("testing", *traits, keyed=False, local=False), "m") is None
    assert len(server.paths) == asked  # another machine is not asked


def test_a_client_closed_before_its_thread_starts_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a program that fails before its first call."""
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    client = http.new_http_client()
    client.close()
    http.open_early(client, "http://127.0.0.1:9/")
    for thread in threading.enumerate():
        if thread.name == "open-early":
            thread.join(10)
    assert raised == []
