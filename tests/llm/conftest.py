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


@pytest.fixture
def server_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """`server_with(script, platform)` starts a server for Claude, and sets its address and a key."""
    with ExitStack() as running:

        def start(script: Script, platform: str = "anthropic", handler: Any = None, **account: str) -> Server:
            dialect, environment = PLATFORMS[platform]
            server = running.enter_context(messages_server(script, handler or dialect))
            for name, value in environment(server, tmp_path, **account).items():
                monkeypatch.setenv(name, value)
            return server

        yield start


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., openai_server.Server]]:
    """`serve(script, pages)` starts a server with Chat Completions and sets the key for it."""
    monkeypatch.setenv(openai_server.KEY_VARIABLE, openai_server.KEY)
    with ExitStack() as running:
        yield lambda *of: running.enter_context(openai_server.openai_server(*of))
