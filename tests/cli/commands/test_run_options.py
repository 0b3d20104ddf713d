"""Wrong options of `run`, --show-prompt, and the options of a resumed run."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from repoagent.cli.commands.run_options import explicit_options, inherit_options
from repoagent.config.layers import load
from repoagent.git.worktree import layout, open_worktree
from repoagent.tasks.runs.directory import RunDirectory, host
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script

KEY = "ghp" + "_" + "Zq7Xb2Lm9Rt4Kw8Vn3Jd6Hs1Pf5Gc0YaTeUi"  # of the shape of a key


def test_an_option_is_not_the_value_of_the_previous_one(repo: GitRepo, run: Run) -> None:
    for option in ("--worktree DIR", "--branch NAME"):
        done = run("run", "--mode", "auto", option.split()[0], "--network", "fix it")
        assert done.code == 2 and f"{option}: missing value before --network" in done.err
    assert repo.git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize(("command", "option"), [("run", "--resume"), ("chat", "--conversation")])
def test_an_empty_name_starts_no_run(
    repo: GitRepo, run: Run, script: Script, command: str, option: str
) -> None:
    done = run(command, "--mode", "auto", option, "", *(["fix it"] if command == "run" else []))
    assert done.code == 2 and "--resume and --conversation need a name" in done.err
    assert script.prompts == []


def test_show_prompt_prints_the_first_request_and_starts_no_run(
    repo: GitRepo, run: Run, script: Script
) -> None:
    options = ("run", "--mode", "auto", "--network", "--check", "make", "say what this is")
    shown = run(*options, "--show-prompt")
    assert shown.code == 0, shown.err
    assert "total tokens" in shown.err
    assert not list(repo.top.glob(".repoagent/*/run-*")) and script.prompts == []
    script.replies("It is an example.")
    run(*options)
    ids = re.compile(r"(?<=<observation-)[0-9a-f]+|(?<=</observation-)[0-9a-f]+")
    sent = [ids.sub("", part).strip() for part in script.prompts[0].split("=====")[:4:2]]
    assert "done only when `make` passes" in sent[1]
    assert all(part in ids.sub("", shown.out) for part in sent)


def test_show_prompt_needs_no_key_and_resumes_no_run(repo: GitRepo, run: Run) -> None:
    env = {"REPOAGENT_MODEL": "anthropic/claude-sonnet-4-5"}
    assert "This run:" in run("run", "--show-prompt", "look", env=env).out
    assert run("run", "--show-prompt", "--resume", "last", env=env).code == 2


def given(**options: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"forget": False, "check": None, "mode": None, "no_commit": False, "agent": "model", **options}
    )


def resumed(repo: GitRepo, before: object, of: str = "", **now: Any) -> tuple[SimpleNamespace, str]:
    """The options `now`, with those of a killed run on the machine `of`, and what is said of them."""
    options = given(**now)
    run_dir = RunDirectory(layout(open_worktree(repo.top)), "run-20260101-000000-abcdef")
    run_dir.folder.mkdir(parents=True, exist_ok=True)
    record = {"version": 1, "state": "killed", "host": of or host(), "options": before}
    run_dir.record.write_text(json.dumps(record))
    settings = load(run_dir.layout, flags={"run.mode": now.get("mode")})
    return options, inherit_options(options, settings, run_dir)


def test_options_that_restrict_a_run_are_inherited(repo: GitRepo) -> None:
    before = {
        "check": "make test", "no_commit": True, "mode": "auto", "network": True, "allow": ["make *", "ls"],
    }  # fmt: skip
    options, sentence = resumed(repo, before, network=False, allow=())
    assert (options.check, options.no_commit, options.mode) == ("make test", True, None)
    assert (options.network, options.allow) == (False, ())
    assert sentence == (
        "options used again: --check 'make test', --no-commit; options to repeat if you still want them: --mode auto, --network, "
        "--allow 'make *' --allow ls"
    )


def test_options_on_the_command_line_win(repo: GitRepo) -> None:
    options, sentence = resumed(repo, {"check": "old", "commit_per_edit": True}, check="new", no_commit=True)
    assert (options.check, sentence, hasattr(options, "commit_per_edit")) == ("new", "", False)
    for now, check in (({"check": ""}, ""), ({"forget": True}, None)):
        options, sentence = resumed(repo, {"check": "old"}, **now)
        assert (options.check, sentence) == (check, "")


def test_inherited_options_do_not_exceed_the_configuration(repo: GitRepo) -> None:
    values: tuple[tuple[str, object, bool], ...] = (
        ("mode", "read-only", True), ("mode", "ask", True), ("mode", "auto-edit", False), ("mode", ["auto"], False),
        ("max_turns", 7, True), ("max_turns", 100_000, False), ("max_turns", 0, False), ("max_turns", True, False),
        ("max_turns", "7", False), ("max_cost", 0.0, True), ("no_commit", "yes", False), ("check", ["rm"], False),
        ("check", None, False),
    )  # fmt: skip
    for name, value, holds in values:
        options, sentence = resumed(repo, {name: value}, max_turns=None, max_cost=None)
        assert getattr(options, name) == (value if holds else given().__dict__.get(name))
        assert sentence.startswith("options used again" if holds else "options to repeat")


def test_no_key_is_saved_and_no_check_of_another_machine_inherited(repo: GitRepo) -> None:
    options, sentence = resumed(repo, {"check": "rm -r ~"}, of="elsewhere")
    assert (options.check, sentence) == (None, "options to repeat if you still want them: --check 'rm -r ~'")
    options = given(check=f"TOKEN={KEY} make", no_commit=True)
    assert explicit_options(options) == {"no_commit": True, "check": None}


def test_a_resumed_run_uses_its_options(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<finish>looked</finish>", "<finish>looked again</finish>", "<finish>looked</finish>")
    done = run("run", "look", "--mode", "read-only", "--check", "true", "--no-sandbox")
    assert (done.code, done.out) == (0, "looked\n")
    done = run("run", "--continue", "look again", "--json-stream")
    (say,) = [line["text"] for line in map(json.loads, done.out.splitlines()) if line["event"] == "say"]
    again, repeated = say.split("; ")
    assert again == "options used again: --mode read-only, --check true"
    assert repeated == "options to repeat if you still want them: --no-sandbox"
    (record,) = (repo.top / ".repoagent/runs").glob("*/run.json")
    assert json.loads(record.read_text())["options"] == {"mode": "read-only", "check": "true"}


def test_continue_resumes_the_last_of_the_same_kind(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("one", "two", "three", "four", "five")
    assert run("run", "--continue", "go on", "--mode", "read-only").code == 1
    assert run("chat", stdin="a chat\n").code == 0
    assert run("run", "--continue", "go on", "--mode", "read-only").code == 1
    assert run("run", "a run", "--mode", "read-only").code == 0
    assert run("chat", "--continue", stdin="more of the chat\n").code == 0
    assert run("run", "--continue", "more of the run").code == 0
    assert run("run", "--resume", "last", "and more of it").code == 0
    folder = repo.top / ".repoagent/conversations"
    result = {path.name[:4]: path.read_text() for path in folder.glob("*.md")}
    assert "more of the chat" in result["chat"] and "more of the run" in result["run-"]
    assert "and more of it" in result["run-"]
