"""The output of `edit` on a terminal: reasons of failures, no text for the model, each message once; narrow pages."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from repoagent.display_text import display_width
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, QUESTION, Open, Run, Script, diff

WRONG = diff("src/app.py", " def greet(person):", "-    return 'hi ' + person", "+    return person")
FINISH = "<finish>It greets.</finish>\n"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n]*\r")


@pytest.fixture(autouse=True)
def app(repo: GitRepo) -> None:
    app = "def greet(name):\n    return 'hello ' + name\n"
    repo.commit(**{"src/app.py": app, "lib/b.py": "b = 1\n", "lib/c.py": "c = 1\n"})


@pytest.fixture
def edit(screen: Open) -> Open:
    """`repoagent edit src/app.py greet ARGS` on a terminal, without colors."""
    return lambda *args, **more: screen("edit", "src/app.py", "greet", *args, NO_COLOR="1", **more)


def test_a_refused_edit_says_why_and_its_message_is_shown_later(edit: Open, script: Script) -> None:
    script.replies(WRONG + FINISH, GREET + "<commit>\nGreet well\n</commit>\n" + FINISH)
    began = time.monotonic()
    with edit(TERM="dumb") as window:
        assert "It greets." not in window.expect("edit refused: src/app.py, hunk 1: ")
        before = window.expect(QUESTION)
        assert "these of its\nlines are not in the file:\n" in before
        assert "def greet(person):" in before and "Send the hunk" not in before and "It greets." not in before
        time.sleep(0.6)
        window.send("y\n")
        assert window.end() == 0
    assert window.seen.count("It greets.") == 1 and "was not performed" not in window.seen
    assert window.seen.index("It greets.") < window.seen.index("] Greet well · 1 file +1 -1")
    took = re.search(r"· ([\d.]+) s\n", window.seen)  # without the wait for the user
    assert took and float(took[1]) < time.monotonic() - began - 0.5


def test_refusals_of_one_reply_are_shown_together(edit: Open, script: Script) -> None:
    many = "".join(diff(path, " no such line", "-x", "+y") for path in ("src/app.py", "lib/b.py", "lib/c.py"))
    script.replies(many, GREET + FINISH)
    with edit("--yes", "--scope", "repo", TERM="dumb") as window:
        assert window.end() == 0
    assert window.seen.count("edit refused") == 1 and "edit refused, 3 hunks:\n" in window.seen
    assert all(f"{path}, hunk 1: " in window.seen for path in ("src/app.py", "lib/b.py", "lib/c.py"))
    assert "A part of the change was refused" not in window.seen


def test_a_failed_check_shows_its_end_and_exits_with_6(edit: Open, script: Script, run: Run) -> None:
    script.replies(GREET + FINISH, "I can't make it pass.", "No.")
    with edit("--yes", "--check", "seq 30; echo AssertionError: 1; exit 3", TERM="dumb") as window:
        assert window.end() == 6
    assert "… 19 more lines (-v shows all)\n  20\n" in window.seen
    assert "\n  AssertionError: 1\n" in window.seen
    assert window.seen.count("\n  30\n") == 1 and "It greets." not in window.seen
    assert "send only what has to change" not in window.seen and "after your edit" not in window.seen
    assert "1 failed, 0 undone" in run("activity").out


def test_in_a_pipe_the_output_of_a_failed_check_is_whole(script: Script, run: Run) -> None:
    failing = ("edit", "src/app.py", "greet", "--yes", "--check", "seq 30; exit 3")
    script.replies(GREET + FINISH, "I can't make it pass.")
    done = run(*failing)
    assert done.code == 6 and "\n15\n16\n" in f"\n{done.err}" and done.err.count("\n15\n") == 1
    script.replies(GREET + FINISH, "I can't make it pass.")
    error = run(*failing, "--json").json["error"]
    assert error["printed"].startswith("1\n2\n") and "\n2\n" not in error["message"]


def test_a_running_check_shows_its_last_lines(edit: Open, script: Script) -> None:
    script.replies(GREET + FINISH)
    with edit("--yes", "--check", "echo collected 7 items; sleep 1.5") as window:
        for text in ("running echo collected", "  collected 7 items", "(1 s)"):
            window.expect(text)
        assert window.end() == 0
    passed = r"check `echo collected 7 items; sleep 1.5` passed in \d+\.\d s: collected 7 items"
    assert re.search(passed, window.seen)


def test_an_interrupt_is_a_line(repo: GitRepo, edit: Open, script: Script) -> None:
    script.replies(WRONG, "", GREET)
    script.act(1, "sleep 30")
    with edit(TERM="dumb") as window:
        window.expect("edit refused")
        while len(script.prompts) < 2:
            time.sleep(0.05)
        window.send("\x03")
        assert window.end() == 130
    message = "interrupted; nothing was changed. Run the same command again to resume (replies\nalready paid for: 1)\n"
    assert window.seen.endswith(message) and repo.status() == ""
    with edit(TERM="dumb") as window:
        window.answer(QUESTION, "\x03")
        window.expect("\ninterrupted; nothing was changed.")
        assert window.end() == 130


def editor(folder: Path, *commands: str) -> str:
    """An editor that runs the next of `commands` on the file each time."""
    for number, command in enumerate(commands):
        (folder / f"do-{number}").write_text(command)
    program = folder / "editor"
    program.write_text(f"#!/bin/sh\nn=$(ls {folder} | grep -c did-)\n. {folder}/do-$n\n: > {folder}/did-$n\n")
    program.chmod(0o755)
    return str(program)


def test_an_edited_diff_is_checked(repo: GitRepo, edit: Open, script: Script, tmp_path: Path) -> None:
    script.replies(GREET)
    bad, good = (f'sed -i "s/^+    .*/+    return {value}/" $1' for value in ("((", "'hey'"))
    with edit(GIT_EDITOR=editor(tmp_path, bad, ":", good)) as window:
        window.expect(QUESTION)
        for message in ("not accepted: src/app.py would no longer parse", "same diff as before"):
            window.send("e\n")
            window.expect(message)
            window.expect(QUESTION)
        window.send("e\n")
        assert "+    return 'hey'" in window.answer(QUESTION, "y\n")
        assert window.end() == 0
    assert repo.read("src/app.py").endswith(b"    return 'hey'\n")


def test_an_edited_sensitive_file_is_asked_about(
    repo: GitRepo, edit: Open, script: Script, tmp_path: Path
) -> None:
    script.replies(GREET + "```diff\n--- /dev/null\n+++ b/.gitattributes\n@@ -0,0 +1 @@\n+x\n```\n")
    change = editor(tmp_path, "sed -i 's/^+x/+y/' $1")
    with edit("--scope", "repo", GIT_EDITOR=change) as window:
        window.answer(QUESTION, "e\n")
        assert "\n+y\n" in window.answer(QUESTION, "y\n") and "warning: " in window.seen
        window.answer("You did not ask for a change to .gitattributes.", "n\n")
        assert window.end() == 1
    assert not (repo.top / ".gitattributes").exists() and b"hello '" in repo.read("src/app.py")


def test_the_words_of_an_edit_and_its_answer_are_rendered_once(script: Script, screen: Open) -> None:
    script.replies("# Why\nIt is **not** needed.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    with screen("edit", "src/app.py", "why", LC_ALL="C.UTF-8", NO_COLOR="1") as window:
        window.end()
    shown = CONTROL.sub("", window.seen)
    assert "# Why\nIt is not needed.\n" in shown and "\na   b\n─────\n1   2\n" in shown
    assert shown.count("not needed") == 1 and "**" not in shown


def test_every_page_fits_a_terminal_and_hostile_text_does_nothing(
    repo: GitRepo, run: Run, script: Script, screen: Open
) -> None:
    """A name and a commit message with escape sequences, a wide script and a long line."""
    odd = "src/odd\x1b[31m\n名前.py"
    repo.write(odd, "def greet(name):\n    return 'hello ' + name + '" + "x" * 90 + "'\n")
    repo.commit("the subject \x1b[2J " + "is long " * 12)
    script.replies(GREET.replace("src/app.py", "a.txt"), "The greeting \x1b[2J.", "Done.")
    run("edit", "--yes", odd, "a greeting \x1b[2J " * 8)
    run("edit", "--yes", "src/app.py", "say a greeting " * 8)
    run("run", "--mode", "read-only", "a greeting \x1b[2J " * 8)
    for words in (
        "split src/app.py", f"history {odd}", f"outline {odd}", f"context {odd}", f"neighbors {odd} --weak --explain",
        f"uses {odd}", "memory list", f"memory show {odd}", "recall greeting", "conversation list --files",
        f"conversation show file:{odd}", "runs show last", "undo --list", "config", "activity", "review --commit HEAD",
    ):  # fmt: skip
        command = words.split(" ")
        piped = run(*command).out.replace("\x1b[2J", "")
        assert "\x1b" not in piped or command[:2] == ["conversation", "show"]
        with screen("--no-pager", *command, width=60, LC_ALL="C.UTF-8") as window:
            window.end()
        shown = CONTROL.sub("", window.seen.replace("\x1b[31m", "RED"))
        assert "\x1b" not in shown and "RED" not in shown, command
        lines = [line for line in shown.split("\n") if " " in line.strip() and "/" not in line]
        assert not [line for line in lines if display_width(line) > 60], command
