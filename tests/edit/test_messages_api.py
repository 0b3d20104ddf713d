"""Edits through the real SDK and a local server that speaks the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run
from tests.llm.providers.messages_server import KEY, Received, cut, messages_server, status, text

MODEL = "anthropic/claude-haiku-5-5"


def breakpoints(request: Received) -> list[str]:
    """The texts of the blocks with a cache breakpoint, in order."""
    blocks: list[Mapping[str, Any]] = [*request.body.get("system", ())]
    blocks += [block for message in request.body["messages"] for block in message["content"]]
    return [block["text"] for block in blocks if "cache_control" in block]


def written_bytes(repo: GitRepo) -> bytes:
    """The content of all files that the program has written."""
    folders = (repo.top / ".repoagent", repo.top / ".git/repoagent")
    return b"".join(path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file())


@pytest.mark.soak
def test_a_simple_edit_is_one_call(repo: GitRepo, edit: Run) -> None:
    repo.write("AGENTS.md", "Use single quotes.\n")
    usage = {"input_tokens": 900, "output_tokens": 50, "cache_read_input_tokens": 2000}
    with messages_server([text("<commit>Greet</commit>\n" + GREET, usage=usage)]) as server:
        done = edit("--model", MODEL, env=server.environment)
    (request,) = server.requests
    assert request.body["stream"] is True
    context, file = breakpoints(request)  # the protocol alone is too short for a provider's cache
    assert "Use single quotes." in context
    assert "unified diff" in request.text.partition("Use single quotes.")[0]
    assert "return 'hello ' + name" in file and "greet with a comma" not in file
    assert request.text.rstrip().endswith("greet with a comma")
    assert "2,900 + 50 tokens (2,000 cached) · $0.0" in done.out
    assert done.out.count("\n") == 1 and done.err == ""
    assert f"Assisted-by: repoagent:{MODEL}" in repo.git("log", "-1", "--format=%B")


@pytest.mark.soak
def test_transient_failures_are_retried(repo: GitRepo, edit: Run) -> None:
    """A rate limit, a broken stream, a reply cut in the middle of a line of the diff."""
    reply = "I add a comma.\n\n" + GREET
    half = reply.index("+    return f'hel") + 15
    parts = (text(reply[:half], stop="max_tokens"), text(reply[half:]))
    with messages_server([status(429, retry_after=0), cut(reply), *parts]) as server:
        value = edit("--json", "--model", MODEL, env=server.environment).json
    assert len(server.requests) == value["usage"]["calls"] == 4
    assert value["usage"]["input"] >= 300 and value["cost"] > 0
    assert b"    return f'hello, {name}'\n" in repo.read("src/app.py")
    assert repo.git("rev-list", "--count", "HEAD").strip() == "2"
    assert all(len(breakpoints(request)) <= 4 for request in server.requests)
    assert KEY.encode() not in written_bytes(repo)
