"""Tasks with the whole program as a process: linked work trees, answers by a program, and a kill during a command."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests import program
from tests.tasks.scenarios.stage import BUMP, FIX, MODEL, Look, Stage, seen

Make = Callable[..., Stage]


COMMAND = ("run", "--model", MODEL, "--mode")


def run(task: Stage, *words: str, stdin: bytes = b"", mode: str = "auto-edit") -> tuple[int, str, str]:
    done = program.run([*COMMAND, mode, *words], task.repo.top, stdin=stdin, load=("anthropic",))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("way", [("--branch", "topic"), ("--worktree", "../beside")])
def test_a_new_branch_or_work_tree(stage: Make, way: tuple[str, str]) -> None:
    """The work tree of an interrupted run is kept, and --resume uses it again."""
    task = stage()
    task.repo.write("README.md", "# mine\n")
    task.repo.write("docs/mass.md", "staged\n")
    task.repo.git("add", "docs/mass.md")
    task.replies, task.before = BUMP, Look.at(task.repo)
    on_branch = way[0] == "--branch"
    code, out, err = run(task, *way, *(("--max-turns", "2") if on_branch else ()), "--json", "Say all units.")
    assert code == (5 if on_branch else 0), err
    if on_branch:
        (folder,) = task.file("runs").iterdir()
        code, out, err = run(task, "--resume", folder.name, "--json")
        assert code == 0, err
    assert Look.at(task.repo) == task.before
    (commit,) = json.loads(out)["commits"]
    assert task.repo.git("rev-parse", f"{commit}^").strip() == task.before.head
    assert "Converts all units." in task.repo.git("show", f"{commit}:README.md")
    branches = task.repo.git("for-each-ref", "--format=%(refname:short)", "--contains", commit).split()
    assert branches == ["topic"] if on_branch else len(branches) == 1 and branches != ["main"]
    assert task.repo.git("worktree", "list").count("\n") == (1 if on_branch else 2)


def test_events_and_an_answer_by_a_program(stage: Make) -> None:
    """--json-stream: each line is an event; the answer is read from standard input."""
    task = stage()
    task.replies = ("<run>make check</run>", seen("exit [12]", str(BUMP[0])), *BUMP[1:])
    task.before = Look.at(task.repo)
    answers = "".join(json.dumps({"id": n, "answer": "yes"}) + "\n" for n in (1, 2, 3)).encode()
    code, out, err = run(task, "--json-stream", "Say all units.", stdin=answers, mode="ask")
    assert code == 0, (out, err)
    events = [json.loads(line) for line in out.splitlines()]
    assert {event["version"] for event in events} == {1}
    assert (events[0]["event"], events[-1]["event"]) == ("start", "end")
    assert [event["of"] for event in events if event["event"] == "ask"] == ["command", "edit"]
    task.name = events[0]["run"]
    task.sound()
    task.committed("README.md")


def test_without_a_user_to_ask(stage: Make) -> None:
    """The default mode without a terminal: nothing is written, and the message names the remedy."""
    task = stage()
    task.replies, task.before = BUMP, Look.at(task.repo)
    code, _, err = run(task, "Say all units.", mode="ask")
    assert code != 0 and "--mode auto-edit" in err
    assert Look.at(task.repo) == task.before


def test_killed_during_a_command(stage: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command dies with the run; the model learns that its progress is unknown."""
    monkeypatch.setenv("REPOAGENT_RUN__ALLOW", "python3 *\ntouch *\nsleep *")
    task = stage()
    wait = "<run>touch begun; sleep 31.4159; touch ended</run>"
    task.name, task.replies = "fix", (wait, seen("This was interrupted", str(FIX[0])), *FIX[1:])
    task.before = Look.at(task.repo)
    words = ("--conversation", task.name, "Make the failing test pass.")
    running = program.start([*COMMAND, "auto-edit", *words], task.repo.top, load=("anthropic",))
    while not (task.repo.top / "begun").exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    running.kill()
    running.communicate()
    until = time.monotonic() + 5
    while b"sleep 31.4159" in subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not (task.repo.top / "ended").exists()
    (task.repo.top / "begun").unlink()
    code, _, err = run(task, "--resume", task.name)
    assert code == 0, err
    task.whole("convert/rounding.py")
