"""The repository of a test of runs, and the Messages API that its models are behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import GitRepo
from tests.llm.providers.messages_server import Script, Server, messages_server


@pytest.fixture
def repo(repo: GitRepo, request: pytest.FixtureRequest) -> GitRepo:
    """The sample repository, and the files COMMITTED of the test's module in a second commit."""
    if files := getattr(request.module, "COMMITTED", {}):
        repo.commit(**files)
    return repo


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Server]]:
    """`serve(script)`: a server with these replies, which models of Anthropic are at until the end of the test."""
    with ExitStack() as running:

        def serve(script: Script) -> Server:
            server = running.enter_context(messages_server(script))
            for key, value in server.environment.items():
                monkeypatch.setenv(key, value)
            return server

        yield serve
