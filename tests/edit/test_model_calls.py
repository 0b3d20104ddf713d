"""Calls of a model: through the real SDK to a local server, and from a recording."""

from __future__ import annotations

import json

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script
from tests.llm.providers.messages_server import KEY, messages_server, text

MODEL = "anthropic/claude-haiku-5-5"


@pytest.mark.soak
def test_a_simple_edit_is_one_call(repo: GitRepo, edit: Run) -> None:
    repo.write("AGENTS.md", "Use single quotes.\n")
    usage = {"input_tokens": 900, "output_tokens": 50, "cache_read_input_tokens": 2000}
    with messages_server([text("<commit>Greet</commit>\n" + GREET, usage=usage)]) as server:
        done = edit("--model", MODEL, env=server.environment)
    (request,) = server.requests
    assert request.body["stream"] is True
    blocks = [*request.body.get("system", ())]
    blocks += [block for message in request.body["messages"] for block in message["content"]]
    # those with a breakpoint of the cache, for which the protocol alone is too short
    context, file = (block["text"] for block in blocks if "cache_control" in block)
    assert "Use single quotes." in context
    assert "unified diff" in request.text.partition("Use single quotes.")[0]
    assert "return 'hello ' + name" in file and "greet with a comma" not in file
    assert request.text.rstrip().endswith("greet with a comma")
    assert "2,900 + 50 tokens (2,000 cached) · $0.0" in done.out
    assert done.out.count("\n") == 1 and done.err == ""
    assert f"Assisted-by: repoagent:{MODEL}" in repo.git("log", "-1", "--format=%B")
    assert KEY not in done.out + done.err
    written = [path for folder in (".repoagent", ".git/repoagent") for path in (repo.top / folder).rglob("*")]
    assert not any(KEY.encode() in path.read_bytes() for path in written if path.is_file())


@pytest.mark.soak
def test_record_and_replay_on_a_clone(repo: GitRepo, edit: Run, run: Run, script: Script) -> None:
    clone = GitRepo(repo.top.parent / "clone")
    repo.git("clone", "-q", ".", str(clone.top))
    tape = script.folder / "tape.jsonl"
    command = ("edit", "src/app.py", "greet with a comma", "--yes")
    script.replies('<read path="README.md"/>\n', "<commit>Greet\n\nBetter.</commit>\n" + GREET)
    assert run(*command, "--record", str(tape)).code == 0
    script.replies()
    done = run(*command, "--model", f"replay:{tape}", "--json", cwd=clone.top, code=0)
    assert script.prompts == []
    assert clone.git("rev-parse", "HEAD^{tree}") == repo.git("rev-parse", "HEAD^{tree}")
    for place in (repo, clone):
        message = place.git("log", "-1", "--format=%B").partition("Repoagent-Edit:")[0]
        assert message == "Greet\n\nBetter.\n\nAssisted-by: repoagent:command:sh\n"
    assert done.json["usage"]["calls"] == 2
    clone.git("reset", "-q", "--hard", "HEAD^")
    clone.write("src/app.py", clone.read("src/app.py") + b"# mine\n")
    for request in ("greet with a comma", "other words"):
        done = edit("--model", f"replay:{tape}", request=request, cwd=clone.top, code=4)
        assert "has no reply left for this request" in done.err
    assert json.loads(tape.read_text().splitlines()[0])["reply"].startswith("<read")
