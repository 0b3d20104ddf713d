"""The end of a run, and how it is resumed: its messages, a failure, a limit, an interrupt."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.apply_patch import Done
from tests.cli.screens import Screen
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Open, Run, Script

FINISH = "<finish>It greets, and there is a table.</finish>\n"
RESUME = "resume with `repoagent run --resume "


@pytest.fixture(autouse=True)
def app(repo: GitRepo) -> None:
    repo.commit(**{"src/app.py": "def greet(name):\n    return 'hello ' + name\n"})


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
    assert end.count("It greets, and there is a table.") == 1
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
