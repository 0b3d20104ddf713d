"""Scripted servers for the block of a test, with the environment pointing at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.llm.providers import openai_server
from tests.llm.providers.messages_server import Script, Server, messages_server


@pytest.fixture
def server_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Server]]:
    """`server_with(script)` starts a Messages API server, sets ANTHROPIC_BASE_URL and a key, and returns the server."""
    with ExitStack() as running:

        def start(script: Script) -> Server:
            server = running.enter_context(messages_server(script))
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            return server

        yield start


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., openai_server.Server]]:
    """`serve(script, pages)` starts a server with Chat Completions and sets the key for it."""
    monkeypatch.setenv(openai_server.KEY_VARIABLE, openai_server.KEY)
    with ExitStack() as running:
        yield lambda *of: running.enter_context(openai_server.openai_server(*of))
