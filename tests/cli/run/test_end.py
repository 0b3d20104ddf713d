"""The output of a run on a terminal: the end of a failed command's output, and a summary of the change."""

from __future__ import annotations

import re

import pytest

from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

KEPT_OUT = "<run>touch a.csv 'b c.csv'</run>\n"
COMMIT = "<commit>\nGreet well\n</commit>\n"
FINISH = "<finish>It greets, and there is a table.</finish>\n"


@pytest.fixture(autouse=True)
def app(repo: GitRepo) -> None:
    repo.commit(**{"src/app.py": "def greet(name):\n    return 'hello ' + name\n"})
    repo.git("config", "repoagent.run.allow", "*")


def window(repo: GitRepo, script: Script, *args: str, width: int = 80) -> Screen:
    env = {"REPOAGENT_MODEL": script.spec, "NO_COLOR": "1", "TERM": "dumb"}
    return Screen([*PROGRAM, "run", "greet", "--mode", "auto-edit", *args], repo.top, env=env, width=width)


def test_a_failed_command_shows_the_end_of_its_output(repo: GitRepo, script: Script) -> None:
    script.replies("<run>seq 40; echo no table; exit 3</run>", "<finish>No.</finish>")
    with window(repo, script) as shown:
        message = shown.expect("  no table\n")
        assert (
            re.search(r"→ exit 3(, [\d.]+ s)?\n  … 29 more lines \(-v shows all\)\n  30\n", message)
            and "output>" not in message
        )
        shown.end()
    script.replies("<run>seq 40; echo no table; exit 3</run>", "<finish>No.</finish>")
    with window(repo, script, "-v") as shown:
        assert "\n  11\n  12\n" in shown.expect("  no table\n")
        shown.end()


def test_the_end_shows_changes_the_check_and_uncommitted_files(repo: GitRepo, script: Script) -> None:
    script.replies(KEPT_OUT + GREET + COMMIT + FINISH, FINISH)
    with window(repo, script, "--check", "echo ==== 7 passed ====", width=100) as shown:
        assert shown.end() == 0
    end = shown.seen
    assert end.count("It greets, and there is a table.") == 1
    assert "<keep" not in end and "was not performed" not in end
    assert "\ncheck `echo ==== 7 passed ====` passed in 0." in end and " s: 7 passed\n" in end
    assert "] Greet well · 1 file +1 -1\n src/app.py | 2 +-\n" in end
    assert (
        "new files not in the commit: a.csv, b c.csv\n  add them with: git add -- a.csv 'b c.csv' && git commit --amend"
        in end
    )
    repo.git("add", "--", "a.csv", "b c.csv")  # as the note suggests
    repo.git("commit", "-q", "--amend", "--no-edit")
    assert repo.status() == ""


def test_a_message_after_a_failed_check_exits_with_6(repo: GitRepo, script: Script, run: Run) -> None:
    script.replies(GREET + FINISH, "<run>true</run>", "I can't.", "Really not.")
    done = run("run", "greet", "--mode", "auto-edit", "--check", "echo 1 failed; false")
    assert done.code == 6 and "1 failed" in done.err and "</output" not in done.err
    assert "resume with" in done.err and "finish again" not in done.err
    assert "1 run (1 failed)" in run("activity").out


def test_an_open_plan_is_reported_without_text_for_the_model(repo: GitRepo, script: Script) -> None:
    plan = '<task add="Look at the tests">all</task>\n'
    script.replies(plan + FINISH, '<finish open="later">Done.</finish>')
    with window(repo, script) as shown:
        assert shown.end() == 0
    assert "the plan has open tasks: " in shown.seen and "set their state" not in shown.seen
    assert "It greets" not in shown.seen and shown.seen.count("Done.") == 1
