"""Scripted servers that run as long as a test, with the environment pointing at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.llm.providers import openai_server
from tests.llm.providers.cloud_server import PLATFORMS
from tests.llm.providers.messages_server import Server, messages_server
from tests.llm.providers.streaming_server import Script

Put = Callable[..., None]
Start = Callable[..., Any]  # a server with a script


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Sets environment variables; "" removes."""

    def put(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
            if not value:
                monkeypatch.delenv(name)

    return put


@pytest.fixture
def server_with(put: Put, tmp_path: Path) -> Iterator[Start]:
    """`server_with(script, platform)` starts a server for Claude, and sets its address and a key."""
    with ExitStack() as running:

        def start(script: Script, platform: str = "anthropic", handler: Any = None, **account: str) -> Server:
            dialect, environment = PLATFORMS[platform]
            server = running.enter_context(messages_server(script, handler or dialect))
            put(**environment(server, tmp_path, **account))
            return server

        yield start


@pytest.fixture
def serve(put: Put) -> Iterator[Start]:
    """`serve(script, pages)` starts a server with Chat Completions and sets the key for it."""
    put(**{openai_server.KEY_VARIABLE: openai_server.KEY})
    with ExitStack() as running:
        yield lambda *of: running.enter_context(openai_server.openai_server(*of))
