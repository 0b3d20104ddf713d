"""`repoagent models` and `repoagent activity --cost`: the real program, with servers on this machine."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.applying import Done, in_process
from tests.conftest import GitRepo
from tests.llm.providers.messages_server import KEY, messages_server, status, text
from tests.program import run

__all__ = ["in_process"]
SONNET = "anthropic/claude-sonnet-5-5"


def program(cwd: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = run(args, cwd, env=env, load=["anthropic"])
    return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())


def rows(cwd: Path, **env: str) -> dict[str, dict[str, Any]]:
    done = program(cwd, "models", "--json", **env)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["version"] == 1
    return {row["name"]: row for row in [*content["providers"], *content["models"]]}


@pytest.mark.soak
def test_without_models_it_shows_what_to_do(tmp_path: Path) -> None:
    done = program(tmp_path, "models")
    assert done.returncode == 0
    assert re.search(r"^edit +no model is configured$", done.stdout, re.MULTILINE)
    assert "no key: set ANTHROPIC_API_KEY" in done.stdout
    assert "without a key or a running server: anthropic, " in done.stderr
    assert "sonnet: anthropic/claude-sonnet-5-5" in done.stdout


@pytest.mark.soak
def test_configured_models_with_keys_and_prices(tmp_path: Path) -> None:
    with messages_server(status(404, "no such path")) as server:
        done = program(tmp_path, "models", **server.environment, REPOAGENT_ALIAS__QUICK="fast")
        result = rows(tmp_path, **server.environment, REPOAGENT_FALLBACK="manual\ncommand:no-such-program -p")
    assert KEY not in done.stdout + done.stderr
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("edit "))
    assert lines[at].removeprefix("edit").strip() == (
        f"{SONNET} (default) · ok · 1,000,000 tokens · $2 in, $10 out · edit format: diff · "
        "key: environment ANTHROPIC_API_KEY"
    )
    assert any(line.startswith("quick ") and "(environment REPOAGENT_ALIAS__QUICK)" in line for line in lines)
    assert result["edit"]["price"]["source"].startswith("as of 20")
    assert result["fallback"]["problem"] == "no program no-such-program on PATH"
    key = {"name": "anthropic", "key": "environment ANTHROPIC_API_KEY"}
    assert result["anthropic"] == {**key, "reachable": True, "problem": None}


@pytest.mark.soak
def test_unreachable_providers(tmp_path: Path) -> None:
    for env, problem in (
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "cannot reach"),
        ({"ANTHROPIC_BASE_URL": "no url"}, "cannot build a request to"),
        ({"REPOAGENT_MODEL": "local/missing.gguf"}, "missing.gguf (no such file"),
        ({"REPOAGENT_MODEL": "replay:missing.jsonl"}, "no such file"),
        ({"REPOAGENT_MODEL": "acme/some"}, "no provider acme"),
        ({"REPOAGENT_MODEL": "openai/gpt-x"}, "no key: set OPENAI_API_KEY"),
    ):
        row = rows(tmp_path, ANTHROPIC_API_KEY=KEY, NO_PROXY="127.0.0.1", **env)["edit"]
        assert row["reachable"] is False
        assert problem in row["problem"] and KEY not in row["problem"]


def test_wrong_names(in_process: Callable[..., Done]) -> None:
    done = in_process("models", REPOAGENT_ALIAS__A="b", REPOAGENT_ALIAS__B="a")
    assert done.code == 2 and "refers to itself" in done.err
    done = in_process("models", "test", "opneai/gpt-x")
    assert done.code == 4 and "did you mean openai/gpt-x" in done.err


@pytest.mark.soak
def test_models_test_makes_a_minimal_call(tmp_path: Path) -> None:
    with messages_server(text("ok", usage={"input_tokens": 12, "output_tokens": 1})) as server:
        done = program(tmp_path, "models", "test", "fast", **server.environment)
        as_json = program(tmp_path, "models", "test", SONNET, "--json", **server.environment)
        spent = json.loads(program(tmp_path, "activity", "--cost", "--by", "call", "--json").stdout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "anthropic/claude-haiku-5-5 answers (served by anthropic/claude-test): ok\n"
    )
    assert re.search(r"^\d+\.\d s · 12 \+ 1 tokens · \$0\.000002$", done.stdout, re.MULTILINE)
    assert json.loads(as_json.stdout)["usage"] == {"input": 12, "output": 1, "estimated": False}
    assert len(server.requests) == 2
    assert len(server.requests[0].text) < 80
    assert [row["calls"] for row in spent["rows"]] == [2] or len(spent["rows"]) == 2


@pytest.mark.soak
def test_a_failed_call_shows_the_reason_at_once(tmp_path: Path) -> None:
    with messages_server([status(401, "invalid x-api-key"), status(529)]) as server:
        wrong = program(tmp_path, "models", "test", SONNET, **server.environment)
        busy = program(tmp_path, "models", "test", SONNET, **server.environment)
    assert (wrong.returncode, busy.returncode) == (4, 4)
    assert "rejected the key" in wrong.stderr
    assert "overloaded" in busy.stderr
    assert len(server.requests) == 2


DIFF = "```diff\n--- a/a.txt\n+++ b/a.txt\n@@\n-one\n+two\n```\n"


@pytest.fixture
def spending(repo: GitRepo) -> GitRepo:
    """A repository in which one edit of two files was paid for."""
    repo.commit("first", **{"a.txt": "one\n", "b.txt": "one\n"})
    both = DIFF + DIFF.replace("a.txt", "b.txt")
    with messages_server(text(both, usage={"input_tokens": 1000, "output_tokens": 101})) as server:
        done = program(
            repo.top, "edit", "a.txt", "b.txt", "say two", "--yes", "--model", "fast", **server.environment
        )
    assert done.returncode == 0, done.stderr
    return repo


@pytest.mark.soak
def test_cost(spending: GitRepo, tmp_path: Path) -> None:
    done = program(spending.top, "activity", "--cost")
    assert done.returncode == 0
    head, day = done.stdout.splitlines()
    assert head.split() == ["day", "calls", "tokens", "in", "out", "cost"]
    assert day.split()[1:] == ["1", "1,000", "101", "$0.0002"]
    by_file = program(spending.top, "activity", "--cost", "--by", "file", "--here").stdout.splitlines()
    assert [line.split()[1:] for line in by_file[1:]] == [
        ["1", "500", "50", "$0.0001"],
        ["1", "500", "50", "$0.0001"],
        ["2", "1,000", "100", "$0.0002"],
    ]
    run = json.loads(program(spending.top, "activity", "--cost", "--by", "run", "--json").stdout)["rows"][0]
    assert run["run"] in spending.git("log", "-1", "--format=%B")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "1,000" in program(elsewhere, "activity", "--cost").stdout


@pytest.mark.soak
def test_the_limit_of_a_day_applies_across_repositories(spending: GitRepo, tmp_path: Path) -> None:
    with messages_server("unused") as server:
        env = {**server.environment, "REPOAGENT_MAX_COST_PER_DAY": "0.0002"}
        done = program(spending.top, "edit", "a.txt", "say three", "--yes", "--model", "fast", **env)
    assert done.returncode == 5
    assert "limit of $0.0002 a day ($0.0002 spent today" in done.stderr
    assert server.requests == []
