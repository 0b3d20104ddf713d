"""`repoagent models` and `repoagent activity --cost`, with servers on this machine."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.edit.conftest import diff
from tests.llm.providers.messages_server import KEY, messages_server, status, text

SONNET = "anthropic/claude-sonnet-5-5"


def rows(in_process: Ask, cwd: Path, **env: str) -> dict[str, dict[str, Any]]:
    done = in_process("models", "--json", cwd=cwd, **env, code=0)
    assert done.json["version"] == 1
    return {row["name"]: row for row in [*done.json["providers"], *done.json["models"]]}


@pytest.mark.soak
def test_without_models_it_shows_what_to_do(in_process: Ask, tmp_path: Path) -> None:
    done = in_process("models", cwd=tmp_path, code=0)
    assert re.search(r"^edit +no model is configured$", done.out, re.MULTILINE)
    assert "no key: set ANTHROPIC_API_KEY" in done.out
    assert "providers without a key or a running server: anthropic, " in done.err
    assert "sonnet: anthropic/claude-sonnet-5-5" in done.out


@pytest.mark.soak
def test_configured_models_with_keys_and_prices(in_process: Ask, tmp_path: Path) -> None:
    with messages_server(status(404, "no such path")) as server:
        done = in_process("models", cwd=tmp_path, **server.environment, REPOAGENT_ALIAS__QUICK="fast")
        fallback = "manual\ncommand:no-such-program -p"
        result = rows(in_process, tmp_path, **server.environment, REPOAGENT_FALLBACK=fallback)
    assert KEY not in done.out + done.err
    lines = done.out.splitlines()
    (edit,) = [line for line in lines if line.startswith("edit ")]
    assert edit.removeprefix("edit").strip() == (
        f"{SONNET} (default) · ok · 1,000,000 tokens · $2 in, $10 out · edit format: diff · "
        "key: environment ANTHROPIC_API_KEY"
    )
    assert any(line.startswith("quick ") and "(environment REPOAGENT_ALIAS__QUICK)" in line for line in lines)
    assert result["edit"]["price"]["source"].startswith("as of 20")
    assert result["fallback"]["problem"] == "no program no-such-program on PATH"
    key = {"name": "anthropic", "key": "environment ANTHROPIC_API_KEY"}
    assert result["anthropic"] == {**key, "reachable": True, "problem": None}


@pytest.mark.soak
def test_unreachable_providers(in_process: Ask, tmp_path: Path) -> None:
    for env, problem in (
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, "cannot reach"),
        ({"ANTHROPIC_BASE_URL": "no url"}, "cannot build a request to"),
        ({"REPOAGENT_MODEL": "local/missing.gguf"}, "missing.gguf (no such file"),
        ({"REPOAGENT_MODEL": "replay:missing.jsonl"}, "no such file"),
        ({"REPOAGENT_MODEL": "acme/some"}, "no provider acme"),
        ({"REPOAGENT_MODEL": "openai/gpt-x"}, "no key: set OPENAI_API_KEY"),
    ):
        row = rows(in_process, tmp_path, ANTHROPIC_API_KEY=KEY, NO_PROXY="127.0.0.1", **env)["edit"]
        assert row["reachable"] is False
        assert problem in row["problem"] and KEY not in row["problem"]


def test_wrong_names(in_process: Ask) -> None:
    done = in_process("models", REPOAGENT_ALIAS__A="b", REPOAGENT_ALIAS__B="a")
    assert done.code == 2 and "refers to itself" in done.err
    assert "did you mean openai/gpt-x" in in_process("models", "test", "opneai/gpt-x", code=4).err


@pytest.mark.soak
def test_models_test_makes_a_minimal_call(in_process: Ask, tmp_path: Path) -> None:
    with messages_server(text("ok", usage={"input_tokens": 12, "output_tokens": 1})) as server:
        test = partial(in_process, "models", "test", cwd=tmp_path, **server.environment)
        done, as_json = test("fast"), test(SONNET, "--json")
    spent = in_process("activity", "--cost", "--json", cwd=tmp_path).json["rows"]
    assert done.code == 0, done.err
    assert done.out.startswith("anthropic/claude-haiku-5-5 answers (served by anthropic/claude-test): ok\n")
    assert re.search(r"^\d+\.\d s · 12 \+ 1 tokens · \$0\.000002$", done.out, re.MULTILINE)
    assert as_json.json["usage"] == {"input": 12, "output": 1, "estimated": False}
    assert len(server.requests) == 2 and len(server.requests[0].text) < 80
    assert sum(row["calls"] for row in spent) == 2
    with messages_server([status(401, "invalid x-api-key"), status(529)]) as server:
        for problem in ("rejected the key", "overloaded"):  # at once
            done = in_process("models", "test", SONNET, cwd=tmp_path, **server.environment)
            assert done.code == 4 and problem in done.err
    assert len(server.requests) == 2


@pytest.mark.soak
def test_cost_and_the_limit_of_a_day(repo: GitRepo, in_process: Ask, tmp_path: Path) -> None:
    """One edit of two files is paid for; the limit is that of all repositories."""
    repo.commit("first", **{"a.txt": "one\n", "b.txt": "one\n"})
    both = "".join(diff(path, "-one", "+two") for path in ("a.txt", "b.txt"))
    options = ("--yes", "--model", "fast")
    with messages_server(text(both, usage={"input_tokens": 1000, "output_tokens": 101})) as server:
        done = in_process("edit", "a.txt", "b.txt", "say two", *options, **server.environment)
    assert done.code == 0, done.err
    cost = partial(in_process, "activity", "--cost")
    head, day = cost().out.splitlines()
    assert head.split() == ["day", "calls", "tokens", "in", "out", "cost"]
    assert day.split()[1:] == ["1", "1,000", "101", "$0.0002"]
    assert cost("--by", "repository", "--here").out.splitlines()[1].split()[1:] == day.split()[1:]
    run = cost("--by", "run", "--json").json["rows"][0]
    assert run["run"] in repo.git("log", "-1", "--format=%B")
    assert "1,000" in cost(cwd=tmp_path).out
    with messages_server("unused") as server:
        env = {**server.environment, "REPOAGENT_MAX_COST_PER_DAY": "0.0002"}
        done = in_process("edit", "a.txt", "say three", *options, **env)
    assert done.code == 5 and server.requests == []
    assert "limit of $0.0002 a day ($0.0002 spent today" in done.err
