"""Suggestions for mistyped command lines, and `repoagent` without arguments."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.apply_patch import Ask
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import Open, Run, Script


def test_every_command_suggests_the_nearest_file(in_process: Ask) -> None:
    for words in (
        "outline src/ap.py", "history src/ap.py", "neighbors src/ap.py", "uses ap.py", "context src/ap.py",
        "review src/ap.py", "split src/ap.py", "outline --summary src/ap.py", "ask what? src/ap.py",
        "memory show src/ap.py", "memory note src/ap.py x", "conversation show file:src/ap.py",
        "edit a.txt x --read src/ap.py --yes", "edit src/ap.py", "edit app.py x --yes",
    ):  # fmt: skip
        done = in_process(*words.split(), REPOAGENT_MODEL="")  # reported before a missing model
        assert (done.code, done.out) == (2, "")
        assert "did you mean src/app.py?" in done.err and done.err.count("\n") == 1


def test_the_suggestion_is_relative_to_the_folder_and_in_json(repo: GitRepo, in_process: Ask) -> None:
    repo.write("docs/index.md", "x\n")
    done = in_process("history", "ap.py", "--json", cwd=repo.top / "docs")
    error = done.json["error"]
    assert error["near"] == [str(repo.top / "src/app.py")]
    assert error["message"].endswith("did you mean ../src/app.py?")


def test_bare_repoagent_on_a_terminal_is_a_chat(screen: Open, script: Script) -> None:
    script.replies("Hello there.")
    with screen(TERM="dumb") as window:
        window.expect("/help shows the commands")
        window.answer("> ", "hello\n")
        window.expect("Hello there.")
        window.answer("> ", "\x04")
        assert window.end() == 0


def test_bare_repoagent_without_a_model_names_the_ways_to_get_one(repo: GitRepo) -> None:
    with Screen(PROGRAM, repo.top, width=80, env={"NO_COLOR": "1"}) as screen:
        assert screen.end() == 4
    assert "no model is configured" in screen.seen and "export ANTHROPIC_API_KEY" in screen.seen
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*\w", "", screen.seen).splitlines())) <= 80


def test_bare_repoagent_in_a_pipe_or_outside_a_repository_prints_the_help(run: Run, tmp_path: Path) -> None:
    piped = run()
    assert (piped.code, piped.err) == (1, "") and "Do:" in piped.out
    with Screen(PROGRAM, tmp_path, env={"GIT_CEILING_DIRECTORIES": str(tmp_path)}) as screen:
        assert screen.end() == 1
    assert "Do:" in screen.seen
