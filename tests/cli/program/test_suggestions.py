"""Suggestions for mistyped command lines, and `repoagent` without arguments."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.cli.applying import Done, in_process
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, run, script

__all__ = ["in_process", "run", "script"]


def test_every_command_suggests_the_nearest_file(in_process: Callable[..., Done]) -> None:
    for words in (
        "outline src/ap.py", "history src/ap.py", "neighbors src/ap.py", "uses ap.py", "context src/ap.py",
        "review src/ap.py", "split src/ap.py", "outline --summary src/ap.py", "ask what? src/ap.py",
        "memory show src/ap.py", "memory note src/ap.py x", "conversation show file:src/ap.py",
        "edit a.txt x --read src/ap.py --yes", "edit src/ap.py", "edit app.py x --yes",
    ):  # fmt: skip
        done = in_process(*words.split(), REPOAGENT_MODEL="")  # reported before a missing model
        assert (done.code, done.out) == (2, "")
        assert "did you mean src/app.py?" in done.err and done.err.count("\n") == 1


def test_the_suggestion_is_relative_to_the_folder_and_in_json(
    repo: GitRepo, in_process: Callable[..., Done]
) -> None:
    repo.write("docs/index.md", "x\n")
    done = in_process("history", "ap.py", "--json", cwd=repo.top / "docs")
    error = done.json["error"]
    assert error["near"] == [str(repo.top / "src/app.py")]
    assert error["message"].endswith("did you mean ../src/app.py?")


def test_bare_repoagent_on_a_terminal_is_a_chat(repo: GitRepo, script: Script) -> None:
    script.replies("Hello there.")
    with Screen(PROGRAM, repo.top, env={"REPOAGENT_MODEL": script.spec, "TERM": "dumb"}) as screen:
        screen.expect("/help shows the commands")
        screen.answer("> ", "hello\n")
        screen.expect("Hello there.")
        screen.answer("> ", "\x04")
        assert screen.end() == 0


def test_bare_repoagent_without_a_model_names_the_ways_to_get_one(repo: GitRepo) -> None:
    with Screen(PROGRAM, repo.top, width=80, env={"NO_COLOR": "1"}) as screen:
        assert screen.end() == 4
    assert "no model is configured" in screen.seen and "export ANTHROPIC_API_KEY" in screen.seen
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*\w", "", screen.seen).splitlines())) <= 80


def test_bare_repoagent_outside_a_repository_prints_the_help(repo: GitRepo, run: Run) -> None:
    piped = run()
    assert (piped.code, piped.err) == (1, "") and "Do:" in piped.out
    outside = repo.top.parent
    with Screen(PROGRAM, outside, env={"GIT_CEILING_DIRECTORIES": str(outside)}) as screen:
        assert screen.end() == 1
    assert "Do:" in screen.seen
