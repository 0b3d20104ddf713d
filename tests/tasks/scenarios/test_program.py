"""Tasks with the whole program as a process: exit codes, output, and the user's next command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from tests import program
from tests.conftest import GitRepo
from tests.tasks.scenarios.stage import BUMP, FIX, MODEL, Look, Stage, change, finish, seen

Make = Callable[..., Stage]


def run(task: Stage, *arguments: str, stdin: bytes = b"", mode: str = "auto-edit") -> tuple[int, str, str]:
    words = ["run", "--model", MODEL, "--mode", mode, *arguments]
    done = program.run(words, task.repo.top, stdin=stdin, load=("anthropic",))
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def only_run(task: Stage) -> str:
    (folder,) = task.file("runs").iterdir()
    return folder.name


def test_a_limit_a_resume_and_a_second_prompt(stage: Make) -> None:
    """Exit code 5, then 0; --continue resumes the same conversation; undo reverts one commit after the other."""
    task = stage()
    task.replies, task.before = BUMP, Look.at(task.repo)
    code, out, err = run(task, "--max-turns", "2", "Say all units.")
    task.name = only_run(task)
    assert code == 5, err
    assert f"--resume {task.name}" in err
    code, out, err = run(task, "--resume", task.name, "--json", "--max-turns", "20")
    said = json.loads(out)
    assert (code, said["commits"]) == (0, [task.repo.head()]), err
    assert said["version"] == 1
    task.sound()
    task.committed("README.md")
    masses = change("docs/mass.md", "# Mass", "# Masses")
    task.replies = (*BUMP, '<read path="docs/mass.md"/>', masses, finish("Say masses"))
    code, out, err = run(task, "--continue", "Now say masses.")
    assert code == 0, err
    assert task.repo.git("rev-list", "--count", f"{task.before.head}..") == "2\n"
    for _ in range(2):
        assert program.run(["undo"], task.repo.top).returncode == 0
    assert Look.at(task.repo) == task.before


def test_resume_on_another_machine(stage: Make) -> None:
    """Only the conversation file is copied."""
    task = stage()
    task.replies = FIX
    code, _, err = run(task, "--max-turns", "2", "--mode", "auto", "Make the failing test pass.")
    assert code == 5, err
    name = only_run(task)
    other = GitRepo(task.repo.top.parent / "other")
    task.repo.git("clone", "-q", str(task.repo.top), str(other.top))
    there = other.top / ".repoagent" / "conversations"
    there.mkdir(parents=True)
    shutil.copy(task.file("conversations", f"{name}.md"), there)
    task.repo, task.name, task.before = other, name, Look.at(other)
    code, _, err = run(task, "--resume", name, "--mode", "auto")
    assert code == 0, err
    assert task.kinds() == ["run", "read", "edit", "run", "finish"]
    task.sound(audited=False)
    task.committed("convert/rounding.py")


@pytest.mark.parametrize("way", [("--branch", "topic"), ("--worktree", "../beside")])
def test_a_new_branch_or_work_tree(stage: Make, way: tuple[str, str]) -> None:
    task = stage()
    task.repo.write("README.md", "# mine\n")
    task.repo.write("docs/mass.md", "staged\n")
    task.repo.git("add", "docs/mass.md")
    task.replies, task.before = BUMP, Look.at(task.repo)
    code, out, err = run(task, *way, "--json", "Say all units.")
    assert code == 0, err
    assert Look.at(task.repo) == task.before
    (commit,) = json.loads(out)["commits"]
    assert task.repo.git("rev-parse", f"{commit}^").strip() == task.before.head
    assert "Converts all units." in task.repo.git("show", f"{commit}:README.md")
    branches = task.repo.git("for-each-ref", "--format=%(refname:short)", "--contains", commit).split()
    assert len(branches) == 1
    assert branches != ["main"]
    kept = task.repo.git("worktree", "list").count("\n")
    assert kept == (1 if way[0] == "--branch" else 2)


def test_resume_an_interrupted_run_on_its_branch(stage: Make) -> None:
    """The work tree is kept for the run, and --resume uses it again."""
    task = stage()
    task.replies, task.before = BUMP, Look.at(task.repo)
    code, _, err = run(task, "--branch", "topic", "--max-turns", "2", "Say all units.")
    assert code == 5, err
    name = only_run(task)
    code, _, err = run(task, "--resume", name)
    assert code == 0, err
    assert Look.at(task.repo) == task.before
    assert "Converts all units." in task.repo.git("show", "topic:README.md")
    assert task.repo.git("worktree", "list").count("\n") == 1


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
    kinds = [event["event"] for event in events]
    assert (kinds[0], kinds[-1]) == ("start", "end")
    assert [event["of"] for event in events if event["event"] == "ask"] == ["command", "edit"]
    task.name = events[0]["run"]
    task.sound()
    task.committed("README.md")


def test_without_a_user_to_ask(stage: Make) -> None:
    """The default mode without a terminal: nothing is written, and the message names the remedy."""
    task = stage()
    task.replies, task.before = BUMP, Look.at(task.repo)
    code, _, err = run(task, "Say all units.", mode="ask")
    assert code != 0
    assert "--mode auto-edit" in err
    assert Look.at(task.repo) == task.before
