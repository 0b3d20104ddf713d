"""Wrong options of `run`, --show-prompt, the options of a resumed run, and the questions before an action."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.cli.commands.run_options import explicit_options, inherit_options
from repoagent.cli.commands.run_ui import folded, refuse_all
from repoagent.config.layers import load_settings
from repoagent.display_text import display_width
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.tasks.runs.directory import RunDirectory, host_name
from tests.cli.screens import Screen, python
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script


def test_an_option_is_not_the_value_of_the_previous_one(repo: GitRepo, run: Run) -> None:
    for option in ("--worktree DIR", "--branch NAME"):
        done = run("run", "--mode", "auto", option.split()[0], "--network", "fix it")
        assert done.code == 2 and f"{option}: missing value before --network" in done.err
    assert repo.git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize(("command", "option"), [("run", "--resume"), ("chat", "--conversation")])
def test_an_empty_name_starts_no_run(run: Run, script: Script, command: str, option: str) -> None:
    done = run(command, "--mode", "auto", option, "", *(["fix it"] if command == "run" else []))
    assert done.code == 2 and "--resume and --conversation need a name" in done.err
    assert script.prompts == []


def test_show_prompt_prints_the_first_request(repo: GitRepo, run: Run, script: Script) -> None:
    options = ("run", "--mode", "auto", "--network", "--check", "make", "say what this is")
    shown = run(*options, "--show-prompt", code=0)
    assert "total tokens" in shown.err
    assert not list(repo.top.glob(".repoagent/*/run-*")) and script.prompts == []
    script.replies("It is an example.")
    run(*options)
    ids = re.compile(r"(?<=<observation-)[0-9a-f]+|(?<=</observation-)[0-9a-f]+")
    sent = [ids.sub("", part).strip() for part in script.prompts[0].split("=====")[:4:2]]
    assert "done only when `make` passes" in sent[1]
    assert all(part in ids.sub("", shown.out) for part in sent)
    env = {"REPOAGENT_MODEL": "anthropic/claude-sonnet-4-5"}  # without a key
    assert "This run:" in run("run", "--show-prompt", "look", env=env).out
    assert run("run", "--show-prompt", "--resume", "last", env=env).code == 2


def given_options(**options: Any) -> SimpleNamespace:
    defaults = {"forget": False, "check": None, "mode": None, "no_commit": False, "agent": "model"}
    return SimpleNamespace(**{**defaults, **options})


def resumed(repo: GitRepo, before: object, of: str = "", **now: Any) -> tuple[SimpleNamespace, str]:
    """The options `now`, with those of a killed run on the machine `of`, and what is said of them."""
    options = given_options(**now)
    run_dir = RunDirectory(layout_of(open_worktree(repo.top)), "run-20260101-000000-abcdef")
    run_dir.folder.mkdir(parents=True, exist_ok=True)
    record = {"version": 1, "state": "killed", "host": of or host_name(), "options": before}
    run_dir.record.write_text(json.dumps(record))
    settings = load_settings(run_dir.layout, flags={"run.mode": now.get("mode")})
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
        assert getattr(options, name) == (value if holds else vars(given_options()).get(name))
        assert sentence.startswith("options used again" if holds else "options to repeat")


def test_no_key_is_saved_and_no_check_of_another_machine_inherited(repo: GitRepo) -> None:
    options, sentence = resumed(repo, {"check": "rm -r ~"}, of="elsewhere")
    assert (options.check, sentence) == (None, "options to repeat if you still want them: --check 'rm -r ~'")
    key = "ghp" + "_" + "Zq7Xb2Lm9Rt4Kw8Vn3Jd6Hs1Pf5Gc0YaTeUi"
    options = given_options(check=f"TOKEN={key} make", no_commit=True)
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


# Questions before an action, and the messages without a user.


CODE = """
from repoagent.agent.approvals.policy import ApprovalRequest
from repoagent.cli.commands.run_ui import ask_user
from repoagent.cli.ui.terminal import Terminal
from repoagent.errors import RepoagentError
try:
    print(ask_user(Terminal.open())({asked}))
except RepoagentError as error:
    print(type(error).__name__, error)
"""


def question(asked: str, cwd: Path) -> Screen:
    return Screen(python(CODE.format(asked=asked)), cwd, width=60)


def test_a_command_is_shown_completely_and_sanitized(tmp_path: Path) -> None:
    command = "echo " + "x" * 150 + " \\x1b[2J\\u202e; rm -rf /the/end"
    with question(f'ApprovalRequest("command", "{command}", why="it is odd")', tmp_path) as shown:
        shown.answer("Run this command [y,n,q,?]? ", "n\n")
        assert "\x1b[2J" not in shown.seen and "^[[2J<U+202E>" in shown.seen and "/the/end" in shown.seen
        assert shown.seen.count("x") >= 150
        assert "without a sandbox" in shown.seen and "note: it is odd" in shown.seen
        shown.answer("Tell the model why", "use make\n")
        shown.expect("allowed=False, always=False, reason='the user said no: use make'")


def test_always_shows_the_allowed_patterns(tmp_path: Path) -> None:
    asked = 'ApprovalRequest("command", "make; pytest -q", ("make", "pytest *"), sandbox="landlock")'
    with question(asked, tmp_path) as shown:
        shown.answer("[y,a,r,n,q,?]? ", "?\n")
        assert "    make\n    pytest *\n" in shown.seen and "in a sandbox (landlock)" in shown.seen
        shown.answer("do not ask again in this repository: make;", "a\n")
        shown.expect("allowed=True, always=True")
        shown.expect("keep=False")


@pytest.mark.parametrize(
    ("approval", "message"),
    [
        (ApprovalRequest("command", "make 'a b'", ("make 'a b'",)), "run.allow 'make '\"'\"'a b'\"'\"''`"),
        (
            ApprovalRequest("command", "eval $x", why="opaque"),
            "(opaque). The user can allow it with `--mode auto`",
        ),
        (ApprovalRequest("edit", "a.txt"), "`--mode auto-edit`"),
        (ApprovalRequest("browse", "https://x"), "a terminal"),
    ],
)
def test_without_a_user_the_refusal_names_an_option(approval: ApprovalRequest, message: str) -> None:
    verdict = refuse_all(approval)
    assert not verdict.allowed and message in verdict.reason and verdict.by == "nobody"


@given(st.text(st.sampled_from("ab  €\t漢\x1b\u202e-"), max_size=200), st.integers(20, 60))
def test_folding_drops_nothing(text: str, width: int) -> None:
    lines = folded(text, width)
    assert all(display_width(line) <= width for line in lines)
    whole = "".join(line[:-2] if line.endswith((" ↩", " \\")) else line for line in lines)
    assert whole == folded(text, 10_000)[0]
