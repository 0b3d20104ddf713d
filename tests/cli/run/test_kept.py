"""The options of a resumed run."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from repoagent.cli.commands.run_options import explicit_options, inherit_options
from repoagent.config.layers import load
from repoagent.git.worktree import layout, open_worktree
from repoagent.tasks.runs.directory import RunDirectory, host
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script

NAME = "run-20260101-000000-abcdef"
KEY = "ghp" + "_" + "Zq7Xb2Lm9Rt4Kw8Vn3Jd6Hs1Pf5Gc0YaTeUi"  # of the shape of a key


def given(**options: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"forget": False, "check": None, "mode": None, "no_commit": False, "agent": "model", **options}
    )


def told(repo: GitRepo, said: object, of: str = "") -> RunDirectory:
    """A run with these options, on the machine `of`."""
    run_dir = RunDirectory(layout(open_worktree(repo.top)), NAME)
    run_dir.folder.mkdir(parents=True, exist_ok=True)
    run_dir.record.write_text(
        json.dumps({"version": 1, "state": "killed", "host": of or host(), "options": said})
    )
    return run_dir


def gone_on(repo: GitRepo, before: object, of: str = "", **now: Any) -> tuple[SimpleNamespace, str]:
    options = given(**now)
    run_dir = told(repo, before, of)
    return options, inherit_options(
        options, load(run_dir.layout, flags={"run.mode": now.get("mode")}), run_dir
    )


def test_options_that_restrict_a_run_are_inherited(repo: GitRepo) -> None:
    before = {
        "check": "make test",
        "no_commit": True,
        "mode": "auto",
        "network": True,
        "allow": ["make *", "ls"],
    }
    options, sentence = gone_on(repo, before, network=False, allow=())
    assert (options.check, options.no_commit, options.mode) == ("make test", True, None)
    assert (options.network, options.allow) == (False, ())
    assert sentence == (
        "options used again: --check 'make test', --no-commit; options to repeat if you still want them: --mode auto, --network, "
        "--allow 'make *' --allow ls"
    )


def test_options_on_the_command_line_win(repo: GitRepo) -> None:
    options, sentence = gone_on(repo, {"check": "old", "commit_per_edit": True}, check="new", no_commit=True)
    assert (options.check, sentence, hasattr(options, "commit_per_edit")) == ("new", "", False)
    options, sentence = gone_on(repo, {"check": "old"}, check="")
    assert (options.check, sentence) == ("", "")
    options, sentence = gone_on(repo, {"check": "old"}, forget=True)
    assert (options.check, sentence) == (None, "")


def test_inherited_options_do_not_exceed_the_configuration(repo: GitRepo) -> None:
    values: tuple[tuple[str, object, bool], ...] = (
        ("mode", "read-only", True), ("mode", "ask", True), ("mode", "auto-edit", False), ("mode", ["auto"], False),
        ("max_turns", 7, True), ("max_turns", 100_000, False), ("max_turns", 0, False), ("max_turns", True, False),
        ("max_turns", "7", False), ("max_cost", 0.0, True), ("no_commit", "yes", False), ("check", ["rm"], False),
        ("check", None, False),
    )  # fmt: skip
    for name, value, holds in values:
        options, sentence = gone_on(repo, {name: value}, max_turns=None, max_cost=None)
        assert getattr(options, name) == (value if holds else given().__dict__.get(name))
        assert sentence.startswith("options used again" if holds else "options to repeat")


def test_a_check_is_not_inherited_from_another_machine(repo: GitRepo) -> None:
    options, sentence = gone_on(repo, {"check": "rm -r ~"}, of="elsewhere")
    assert (options.check, sentence) == (None, "options to repeat if you still want them: --check 'rm -r ~'")


def test_a_key_is_not_saved() -> None:
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
    result = {
        path.name[:4]: path.read_text() for path in (repo.top / ".repoagent/conversations").glob("*.md")
    }
    assert "more of the chat" in result["chat"] and "more of the run" in result["run-"]
    assert "and more of it" in result["run-"]
