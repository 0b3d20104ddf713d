"""A scripted Messages API server, with the environment pointing at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.llm.providers.messages_server import Script, Server, messages_server


@pytest.fixture
def server_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Server]]:
    """`server_with(script)` starts a server, sets ANTHROPIC_BASE_URL and a key, and returns the server."""
    with ExitStack() as running:

        def start(script: Script) -> Server:
            server = running.enter_context(messages_server(script))
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            return server

        yield start
