"""Edits through the real SDK and a local server that speaks the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run
from tests.llm.providers.messages_server import KEY, Received, messages_server, text

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
    assert KEY.encode() not in written_bytes(repo) and KEY not in done.out + done.err
