"""The tables of the commands on terminals of 60, 80 and 120 columns, and a chat with Markdown."""

from __future__ import annotations

import re
from shutil import rmtree

import pytest

from repoagent.cli.ui.terminal_text import display_width
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, run, script

__all__ = ["run", "script"]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n]*\r")
LONG = "src/a_folder_with_a_long_name/another_one_that_is_long/a_file_with_a_long_name.py"
TABLES = (
    ("neighbors", "src/app.py", "--weak"),
    ("uses", "greet"),
    ("uses", "src/app.py"),
    ("split", LONG),
    ("conversation", "list", "--files"),
    ("memory", "list"),
    ("activity",),
    ("runs", "list"),
)


def test_no_table_is_wider_than_its_terminal(repo: GitRepo, run: Run, script: Script) -> None:
    repo.write("src/app.py", "def greet(name):\n    return 'hello ' + name\n")
    repo.write(LONG, "from src.app import greet\n\n\ndef caller():\n    return greet('x')\n" * 40)
    repo.commit("a change of both")
    script.replies(f"I do.\n{GREET}", "The answer.")
    run("edit", "--yes", "src/app.py", "say a greeting with a comma in it, please, and say it in one line")
    run("run", "--mode", "read-only", "what does the function that greets return, and who calls it here")
    for width in (60, 80, 120):
        rmtree(repo.top / ".repoagent/splits", ignore_errors=True)
        for command in TABLES:
            with Screen([*PROGRAM, *command], repo.top, width=width, env={"LC_ALL": "C.UTF-8"}) as screen:
                screen.end()
            shown = CONTROL.sub("", screen.seen).split("\n")
            heads = [line for line in shown if re.match(r" *(file|symbol|name|size|time|run)  ", line)]
            assert heads, (command, shown)
            head = heads[0]
            rows = shown[shown.index(head) :]
            rows = rows[: rows.index("")]
            assert len(rows) > 1
            assert max(map(display_width, rows)) <= width, (command, width)


ODD = "src/odd\x1b[31m\n名前.py"
PAGES = (
    ("history", ODD),
    ("outline", ODD),
    ("context", ODD),
    ("neighbors", ODD, "--weak", "--explain"),
    ("uses", ODD),
    ("memory", "list"),
    ("memory", "show", ODD),
    ("recall", "greeting"),
    ("conversation", "list", "--files"),
    ("conversation", "show", f"file:{ODD}"),
    ("runs", "show", "last"),
    ("undo", "--list"),
    ("config",),
    ("activity",),
    ("review", "--commit", "HEAD"),
)


def test_every_page_fits_a_terminal_and_hostile_text_does_nothing(
    repo: GitRepo, run: Run, script: Script
) -> None:
    """A name and a commit message with escape sequences, a wide script and a long line."""
    repo.write(ODD, "def greet(name):\n    return 'hello ' + name + '" + "x" * 90 + "'\n")
    repo.commit("the subject \x1b[2J " + "is long " * 12)
    script.replies(GREET.replace("src/app.py", "a.txt"), "The greeting \x1b[2J.", "Done.")
    run("edit", "--yes", ODD, "a greeting \x1b[2J " * 8)
    run("edit", "--yes", "src/app.py", "say a greeting " * 8)
    run("run", "--mode", "read-only", "a greeting \x1b[2J " * 8)
    for command in PAGES:
        piped = run(*command)
        assert "\x1b" not in piped.out.replace("\x1b[2J", "") or command[:2] == ("conversation", "show")
        env = {"LC_ALL": "C.UTF-8"}
        with Screen([*PROGRAM, "--no-pager", *command], repo.top, width=60, env=env) as screen:
            screen.end()
        shown = re.sub(r"\x1b\[[0-9;]*m", "", CONTROL.sub("", screen.seen.replace("\x1b[31m", "RED")))
        assert "\x1b" not in shown and "RED" not in shown.replace("\x1b[31m", ""), command
        wide = [
            line
            for line in shown.split("\n")
            if display_width(line) > 60 and " " in line.strip() and "/" not in line
        ]
        assert not wide, (command, wide)


@pytest.mark.parametrize("color", [{}, {"NO_COLOR": "1"}])
def test_the_words_of_an_edit_and_its_answer_are_rendered_once(
    repo: GitRepo, script: Script, color: dict[str, str]
) -> None:
    script.replies("# Why\nIt is **not** needed.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    env = {"REPOAGENT_MODEL": script.spec, "LC_ALL": "C.UTF-8", **color}
    with Screen([*PROGRAM, "edit", "src/app.py", "why"], repo.top, env=env) as screen:
        screen.end()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.seen)
    head = "# Why" if color else "Why"
    assert f"{head}\nIt is not needed.\n" in shown and "\na  b\n─  ─\n1  2\n" in shown
    assert shown.count("not needed") == 1 and "**" not in shown
