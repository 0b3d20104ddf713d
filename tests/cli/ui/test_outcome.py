"""What `edit` and `run` print: reasons of failures, no text for the model, each message once; how they end."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from repoagent.display_text import display_width
from tests.cli.apply_patch import Done
from tests.cli.screens import Screen
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


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (
            diff("src/app.py", "-def greet(name):", "-    return 'hello ' + name", "+x = 1"),
            "the change removes greet (src/app.py), which the request does not name",
        ),
        (
            GREET.replace("{name}", "<<secret 0123456789abcdef>>"),
            "the change contains <<secret 0123456789abcdef>>, which is not in the files",
        ),
    ],
)
def test_the_error_of_a_refused_edit_has_no_text_for_the_model(
    run: Run, script: Script, reply: str, cause: str
) -> None:
    script.replies(*[reply] * 4)
    error = run("edit", "src/app.py", "be polite", "--yes", "--json", code=3).json["error"]
    assert "Now write the edit in another form." in "".join(script.prompts)
    assert error["message"] == f"{cause}: rephrase the request, or choose another model with --model"


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


RESUME = "resume with `repoagent run --resume "


@pytest.fixture
def window(repo: GitRepo, screen: Open) -> Open:
    """A run on a plain terminal that may do everything."""
    repo.git("config", "repoagent.run.allow", "*")

    def window(*args: str, width: int = 80) -> Screen:
        return screen("run", "greet", "--mode", "auto-edit", *args, width=width, NO_COLOR="1", TERM="dumb")

    return window


def test_a_failed_command_shows_the_end_of_its_output(window: Open, script: Script) -> None:
    cut = r"→ exit 3(, [\d.]+ s)?\n  … 29 more lines \(-v shows all\)\n  30\n"
    for option, expected in (((), cut), (("-v",), r"\n  11\n  12\n")):
        script.replies("<run>seq 40; echo no table; exit 3</run>", "<finish>No.</finish>")
        with window(*option) as shown:
            message = shown.expect("  no table\n")
            assert re.search(expected, message) and "output>" not in message
            shown.end()


def test_the_end_shows_changes_and_the_check(repo: GitRepo, window: Open, script: Script) -> None:
    wanted = "<run>touch a.csv 'b c.csv'</run>\n" + GREET + "<commit>\nGreet well\n</commit>\n"
    script.replies(wanted + FINISH, FINISH)
    with window("--check", "echo ==== 7 passed ====", width=100) as shown:
        assert shown.end() == 0
    end = shown.seen
    assert end.count("It greets.") == 1
    assert "<keep" not in end and "was not performed" not in end
    assert "\ncheck `echo ==== 7 passed ====` passed in 0." in end and " s: 7 passed\n" in end
    assert "] Greet well · 1 file +1 -1\n src/app.py | 2 +-\n" in end
    add = "add them with: git add -- a.csv 'b c.csv' && git commit --amend"
    assert f"new files not in the commit: a.csv, b c.csv\n  {add}" in end
    repo.git("add", "--", "a.csv", "b c.csv")  # as the note suggests
    repo.git("commit", "-q", "--amend", "--no-edit")
    assert repo.status() == ""


def test_a_message_after_a_failed_check_exits_with_6(repo: GitRepo, script: Script, run: Run) -> None:
    repo.git("config", "repoagent.run.allow", "*")
    script.replies(GREET + FINISH, "<run>true</run>", "I can't.", "Really not.")
    done = run("run", "greet", "--mode", "auto-edit", "--check", "echo 1 failed; false")
    assert done.code == 6 and "1 failed" in done.err and "</output" not in done.err
    assert done.err.count("--resume") == 1 and "finish again" not in done.err
    assert "1 run (1 failed)" in run("activity").out


def test_an_open_plan_is_reported_without_text_for_the_model(window: Open, script: Script) -> None:
    plan = '<task add="Look at the tests">all</task>\n'
    script.replies(plan + FINISH, '<finish open="later">Done.</finish>')
    with window() as shown:
        assert shown.end() == 0
    assert "the plan has open tasks: " in shown.seen and "set their state" not in shown.seen
    assert "It greets" not in shown.seen and shown.seen.count("Done.") == 1


def test_at_a_limit_the_message_is_shown_and_in_the_json(run: Run, script: Script) -> None:
    def limited(*options: str) -> Done:
        script.replies('<message>half way\nthere</message>\nb.py comes next.\n<read path="src/app.py"/>')
        return run("run", "greet", "--mode", "auto-edit", "--max-turns", "1", *options)

    done = limited()
    assert (done.code, done.out) == (5, "")
    assert "half way\nthere\n" in done.err and "\nb.py comes next.\n" in done.err
    last = json.loads(limited("--json-stream").out.splitlines()[-1])
    assert last["event"] == "error"
    for error in (limited("--json").json["error"], last):
        assert (error["words"], error["messages"]) == ("b.py comes next.", ["half way\nthere"])


def test_a_message_after_a_change_exits_with_1(run: Run, script: Script) -> None:
    script.replies(GREET, "Half of it.", "I stop here.")
    done = run("run", "greet", "--mode", "auto-edit")
    assert (done.code, done.out) == (1, "I stop here.\n")
    assert "not finished: the model stopped with a message." in done.err
    assert "unfinished" in run("runs", "show", "last").out
    script.replies("<commit>\nGreet\n</commit>\nb.py is left.\n<finish>greets</finish>")
    result = run("run", "--continue", "finish", "--mode", "auto-edit", "--json").json
    assert (result["outcome"], result["text"], result["words"]) == ("done", "greets", "b.py is left.")


def test_a_model_that_repeats_an_edit_leaves_named_changes(run: Run, script: Script, repo: GitRepo) -> None:
    script.replies(*[GREET] * 5)
    ended = run("run", "greet", "--mode", "auto-edit")
    assert ended.code == 1 and "already in the file" in ended.err
    assert "not committed: src/app.py; undo these changes with `repoagent runs restore " in ended.err
    assert RESUME in ended.err and repo.status() == " M src/app.py\n"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("reply", "question", "how"),
    [
        (GREET, "Apply this change", "stopped at a rejected change"),
        ("<run>make</run>", "Run this command", 'stopped at the question "run this command"'),
    ],
)
def test_runs_shows_that_q_stopped_the_run(
    screen: Open, script: Script, run: Run, *, reply: str, question: str, how: str
) -> None:
    script.replies(reply)
    with screen("run", "greet", width=100) as window:
        window.answer(question, "q\n")
        window.expect(RESUME)
        assert window.end() == 130
        assert re.search(r"\nresume with `repoagent run --resume [\w-]+`\n\Z", window.seen)
    assert how in run("runs", "show", "last").out


@pytest.mark.soak
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_message_after_an_interrupt_starts_on_a_new_line(screen: Open, script: Script, term: str) -> None:
    script.replies("<run>make</run>", "never")
    script.act(1, "sleep 30")
    with screen("run", "do it", width=100, TERM=term) as window:
        window.answer("Run this command [y,a,r,n,q,?]? ", "\x03")
        assert f"\ninterrupted\n{RESUME}" in window.expect(RESUME)
        assert window.end() == 130
    with screen("run", "do it", "--continue", width=100, TERM=term) as window:
        window.answer("asking", "\x03")
        line = f"interrupted\n{RESUME}"
        assert (f"\n{line}" if term == "dumb" else f"\x1b[2K{line}") in window.expect(RESUME)
        assert window.end() == 130


def test_an_unreadable_conversation_is_not_called_resumed(repo: GitRepo, run: Run, script: Script) -> None:
    script.replies("<finish>looked</finish>")
    options = ("--mode", "read-only", "--conversation", "mine")
    assert run("run", "look", *options).code == 0
    file = repo.top / ".repoagent/conversations/mine.md"
    file.write_text("# broken\n" + file.read_text().partition("\n")[2])
    assert "resume with" not in run("run", "more", *options, code=3).err
