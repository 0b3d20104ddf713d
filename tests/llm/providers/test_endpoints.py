"""Names, addresses and keys of endpoints: known and configured ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from repoagent.errors import UsageError
from repoagent.llm.providers.endpoints import (
    Endpoint,
    Key,
    display_address,
    endpoint,
    endpoint_names,
    find_key,
)

SECRET = "sk-secret-42"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.endswith(("_API_KEY", "_TOKEN")) or name == "OLLAMA_HOST":
            monkeypatch.delenv(name)


def made(name: str, own: Mapping[str, Mapping[str, object]] | None = None) -> Endpoint:
    found = endpoint(name, own or {})
    assert found is not None
    return found


def test_every_ready_name_is_usable() -> None:
    assert {"openai", "google", "openrouter", "together", "groq", "mistral", "deepseek", "xai"} < set(
        endpoint_names()
    )
    for name in endpoint_names():
        ready = made(name)
        assert ready.name == name
        assert ready.key_variables
        assert ready.needs_key is not ready.local
        assert ready.base_url.startswith("http://127.0.0.1" if ready.local else "https://")
    assert {name for name in endpoint_names() if made(name).local} == {
        "ollama",
        "llamacpp",
        "lmstudio",
        "vllm",
    }
    assert made("google").key_variables == ("GEMINI_API_KEY", "GOOGLE_API_KEY")


def test_a_users_own_row_adds_and_overrides() -> None:
    own: dict[str, dict[str, object]] = {
        "mine": {
            "base_url": "https://host.example/v1/",
            "api_key_env": "MY_KEY",
        },
        "near": {"base_url": "http://[::1]:9/v1", "traits": ["grammar"]},
        "openai": {"base_url": "http://localhost:4000"},
    }
    assert made("mine", own) == Endpoint("mine", "https://host.example/v1", ("MY_KEY",))
    assert made("near", own) == Endpoint(
        "near", "http://[::1]:9/v1", local=True, traits=frozenset({"grammar"})
    )
    proxied = made("openai", own)
    assert (proxied.base_url, proxied.local, proxied.key_variables) == (
        "http://localhost:4000",
        True,
        ("OPENAI_API_KEY",),
    )
    assert endpoint("unknown", own) is None
    assert endpoint("half", {"half": {"api_key_env": "X"}}) is None


def test_addresses_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example/v1/")
    assert made("openai").base_url == "https://proxy.example/v1"
    assert (
        made("openai", {"openai": {"base_url": "https://mine.example/v1"}}).base_url
        == "https://mine.example/v1"
    )
    monkeypatch.setenv("OPENAI_BASE_URL", "proxy.example")
    with pytest.raises(UsageError, match="OPENAI_BASE_URL is not a URL"):
        endpoint("openai", {})


@pytest.mark.parametrize(
    ("host", "expected", "local"),
    [
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
    ],
)
def test_ollama_host(monkeypatch: pytest.MonkeyPatch, host: str, expected: str, local: bool) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    found = made("ollama")
    assert (found.base_url, found.local, found.needs_key) == (expected, local, False)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"base_url": "host/v1"}, "providers.x.base_url in the configuration is not a URL ('host/v1')"),
        ({"base_url": "http://[::1/v1"}, "is not a URL"),
        ({"base_url": "http://host:port/v1"}, "is not a URL"),
        ({"base_url": "http://a b/v1"}, "is not a URL"),
        ({"base_url": f"htp://me:{SECRET}@host"}, "is not a URL ('htp://host')"),
        ({"base_url": "http://h", "traits": ["wings"]}, "unknown trait 'wings'"),
    ],
)
def test_rows_that_cannot_be_used(row: Any, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        endpoint("x", {"x": row})
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)


def test_where_a_key_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    google = made("google")
    assert find_key(google) is None
    monkeypatch.setenv("GEMINI_API_KEY", "")
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    assert find_key(google) == Key(SECRET, "environment GOOGLE_API_KEY")
    assert SECRET not in repr(find_key(google))
    monkeypatch.setenv("GEMINI_API_KEY", "a")
    assert find_key(google) == Key("a", "environment GEMINI_API_KEY")


def test_a_url_is_shown_without_its_password() -> None:
    assert display_address(f"https://me:{SECRET}@host:8/v1?key={SECRET}") == "https://host:8/v1"
