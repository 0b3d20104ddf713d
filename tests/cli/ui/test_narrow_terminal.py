"""The pages of the commands on a narrow terminal, and an edit with Markdown."""

from __future__ import annotations

import re

from repoagent.display_text import display_width
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Open, Run, Script

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n]*\r")


ODD = "src/odd\x1b[31m\n名前.py"
PAGES = (
    ("split", "src/app.py"),
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
    repo: GitRepo, run: Run, script: Script, screen: Open
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
        with screen("--no-pager", *command, width=60, LC_ALL="C.UTF-8") as window:
            window.end()
        shown = re.sub(r"\x1b\[[0-9;]*m", "", CONTROL.sub("", window.seen.replace("\x1b[31m", "RED")))
        assert "\x1b" not in shown and "RED" not in shown, command
        lines = [line for line in shown.split("\n") if " " in line.strip() and "/" not in line]
        assert not [line for line in lines if display_width(line) > 60], command


def test_the_words_of_an_edit_and_its_answer_are_rendered_once(script: Script, screen: Open) -> None:
    script.replies("# Why\nIt is **not** needed.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    with screen("edit", "src/app.py", "why", LC_ALL="C.UTF-8", NO_COLOR="1") as window:
        window.end()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", window.seen)
    assert "# Why\nIt is not needed.\n" in shown and "\na  b\n─  ─\n1  2\n" in shown
    assert shown.count("not needed") == 1 and "**" not in shown
