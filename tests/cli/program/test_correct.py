"""Mistyped command lines: suggestions, questions, and the corrected command."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, run, script

__all__ = ["run", "script"]

USE = "no such file: app.py. Use src/app.py [Y,n,?]? "


@pytest.mark.parametrize("answer", ["\n", "y\n"])
def test_edit_asks_for_the_only_file_of_that_name(repo: GitRepo, script: Script, answer: str) -> None:
    script.replies(GREET)
    command = [*PROGRAM, "edit", "app.py::greet", "use an f-string", "--model", script.spec]
    with Screen(command, repo.top, env={"NO_COLOR": "1"}) as screen:
        screen.expect(USE)
        screen.send(answer)
        screen.expect("]? ")
        screen.send("y\n")
        assert screen.end() == 0
    assert b"f'hello, {name}'" in repo.read("src/app.py")


def test_the_answer_no(repo: GitRepo, script: Script) -> None:
    command = [*PROGRAM, "edit", "app.py", "use an f-string", "--model", script.spec]
    with Screen(command, repo.top, env={"NO_COLOR": "1"}) as screen:
        screen.expect(USE)
        screen.send("n\n")
        assert screen.end() == 1
    assert script.prompts == []


def test_yes_uses_the_file_with_a_note_and_a_pipe_gets_a_suggestion(
    repo: GitRepo, run: Run, script: Script
) -> None:
    script.replies(GREET)
    refused = run("edit", "app.py", "use an f-string")
    assert refused.code == 2
    assert refused.err == (
        "repoagent: no such file: app.py; did you mean src/app.py? (use --create to create it)\n"
    )
    repo.write("docs/index.md", "x\n")
    done = run("edit", "app.py", "use an f-string", "--yes", cwd=repo.top / "docs")
    assert done.code == 0
    assert "no such file: app.py; using ../src/app.py\n" in done.err
    assert b"f'hello, {name}'" in repo.read("src/app.py")


@pytest.mark.parametrize(
    "words",
    ["outline app.py", "outline app.py::greet", "history app.py", "neighbors app.py", "uses app.py",
     "context app.py:1-2", "review app.py"],
)  # fmt: skip
def test_commands_that_only_read_use_the_file_with_a_note(run: Run, words: str) -> None:
    command, path = words.split()
    done, full = run(command, path), run(command, f"src/{path}")
    assert "no such file: app.py; using src/app.py\n" in done.err
    assert (done.code, done.out) == (full.code, full.out)


@pytest.mark.parametrize(
    "words",
    ["outline src/ap.py", "history src/ap.py", "neighbors src/ap.py", "uses ap.py", "context src/ap.py",
     "review src/ap.py", "split src/ap.py", "outline --summary src/ap.py", "ask what? src/ap.py",
     "memory show src/ap.py", "memory note src/ap.py x", "conversation show file:src/ap.py",
     "edit a.txt x --read src/ap.py --yes"],
)  # fmt: skip
def test_every_command_suggests_the_nearest_file(run: Run, words: str) -> None:
    done = run(*words.split(), env={"REPOAGENT_MODEL": "manual"})
    assert (done.code, done.out) == (2, "")
    assert "did you mean src/app.py?" in done.err and done.err.count("\n") == 1


def test_the_suggestion_is_relative_to_the_folder_and_in_json(repo: GitRepo, run: Run) -> None:
    repo.write("docs/index.md", "x\n")
    done = run("history", "ap.py", "--json", cwd=repo.top / "docs")
    error = json.loads(done.out)["error"]
    assert error["near"] == [str(repo.top / "src/app.py")]
    assert error["message"].endswith("did you mean ../src/app.py?")


def test_a_folder_that_was_named_on_purpose_is_not_corrected(run: Run) -> None:
    done = run("outline", "./app.py")
    assert done.code == 2 and "did you mean src/app.py?" in done.err


def test_a_wrong_file_is_reported_before_a_missing_model(run: Run) -> None:
    for arguments in (("edit", "src/ap.py", "x"), ("edit", "src/ap.py", "x", "--yes"), ("edit", "src/ap.py")):
        done = run(*arguments, env={"REPOAGENT_MODEL": ""})
        assert done.code == 2 and "did you mean src/app.py?" in done.err
    assert run("edit", "src/app.py", "x", "--yes", env={"REPOAGENT_MODEL": ""}).code == 4


@pytest.mark.parametrize("words", [("edit", "add a docstring to greet"), ("add a docstring to greet",)])
def test_a_task_without_a_file_is_offered_to_run(
    repo: GitRepo, run: Run, script: Script, words: tuple[str, ...]
) -> None:
    done = run(*words)
    assert done.code == 2 and "did you mean `repoagent run 'add a docstring to greet'`?" in done.err
    script.replies("<finish>Nothing to do.</finish>")
    with Screen(
        [*PROGRAM, *words], repo.top, width=200, env={"NO_COLOR": "1", "REPOAGENT_MODEL": script.spec}
    ) as screen:
        screen.expect("with `repoagent run` [Y,n,?]? ")
        screen.send("\n")
        screen.end()
    assert len(script.prompts) == 1 and "add a docstring to greet" in script.prompts[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["histroy"], "did you mean 'history'?"),
        (["a.txt", "add a line"], "did you mean `repoagent edit a.txt 'add a line'`?"),
        (["edit", "--modle", "x"], "did you mean '--model'?"),
    ],
)
def test_unknown_words_suggest_the_nearest(run: Run, arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert done.code == 2 and words.lower() in done.err.lower()


def test_bare_repoagent_on_a_terminal_is_a_chat(repo: GitRepo, script: Script) -> None:
    script.replies("Hello there.")
    with Screen(PROGRAM, repo.top, env={"REPOAGENT_MODEL": script.spec, "TERM": "dumb"}) as screen:
        screen.expect("/help shows the commands")
        screen.expect("> ")
        screen.send("hello\n")
        screen.expect("Hello there.")
        screen.expect("> ")
        screen.send("\x04")
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
