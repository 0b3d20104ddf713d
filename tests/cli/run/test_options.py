"""Wrong options of `run`, and --show-prompt."""

from __future__ import annotations

import re

from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script


def test_an_option_is_not_the_value_of_the_previous_one(repo: GitRepo, run: Run) -> None:
    for option in ("--worktree DIR", "--branch NAME"):
        done = run("run", "--mode", "auto", option.split()[0], "--network", "fix it")
        assert done.code == 2 and f"{option}: missing value before --network" in done.err
    assert repo.git("worktree", "list").count("\n") == 1


def test_show_prompt_prints_the_first_request_and_starts_no_run(
    repo: GitRepo, run: Run, script: Script
) -> None:
    options = ("run", "--mode", "auto", "--network", "--check", "make", "say what this is")
    shown = run(*options, "--show-prompt")
    assert shown.code == 0, shown.err
    assert (
        "total tokens" in shown.err and not list(repo.top.glob(".repoagent/*/run-*")) and script.prompts == []
    )
    script.replies("It is an example.")
    run(*options)
    ids = re.compile(r"(?<=<observation-)[0-9a-f]+|(?<=</observation-)[0-9a-f]+")
    sent = [ids.sub("", part).strip() for part in script.prompts[0].split("=====")[:4:2]]
    assert "done only when `make` passes" in sent[1]
    assert all(part in ids.sub("", shown.out) for part in sent)


def test_show_prompt_needs_no_key_and_resumes_no_run(repo: GitRepo, run: Run) -> None:
    env = {"ANTHROPIC_API_KEY": "", "REPOAGENT_MODEL": "anthropic/claude-sonnet-4-5"}
    assert "This run:" in run("run", "--show-prompt", "look", env=env).out
    assert run("run", "--show-prompt", "--resume", "last", env=env).code == 2
