"""Kill the real program at many points, and resume: the result is always the same tree."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import program
from tests.tasks.scenarios.rules import fix_rounding
from tests.tasks.scenarios.sight import Sight
from tests.tasks.scenarios.stage import MODEL, Look, Stage

Make = Callable[..., Stage]

CONFIG = '[run]\nallow = ["python3 *", "touch *", "sleep *"]\n'


def configured(home: Path, more: str = "") -> None:
    folder = home / ".config" / "repoagent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG + more)


def start(task: Stage, *arguments: str) -> program.Running:
    words = ["run", "--model", MODEL, "--mode", "auto-edit", *arguments]
    return program.start(words, task.repo.top, load=("anthropic",))


def finished(running: program.Running) -> str:
    out, err = running.communicate()
    assert running.returncode == 0, (out, err)
    return out.decode() + err.decode()


def wait_for(file: Path, running: program.Running) -> None:
    while not file.exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)


def committed(task: Stage) -> None:
    """Wait until the git process that outlived its run has made the commit."""
    until = time.monotonic() + 30
    while task.before is not None and task.repo.head() == task.before.head:
        assert time.monotonic() < until
        time.sleep(0.05)


def _processes() -> list[str]:
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


class Killing:
    """Kills a run once, at a moment chosen by the task."""

    def __init__(self) -> None:
        self.running: program.Running | None = None
        self.ready = threading.Event()

    def now(self) -> None:
        self.ready.wait(20)
        assert self.running is not None
        self.running.kill()

    def start(self, task: Stage, *arguments: str) -> program.Running:
        self.running = start(task, *arguments)
        self.ready.set()
        return self.running


@pytest.mark.parametrize("call", [1, 6])
def test_killed_during_a_model_call(stage: Make, clean_environment: Path, call: int) -> None:
    configured(clean_environment)
    task = stage("python")
    task.name = "fix"
    task.rule, task.before = fix_rounding, Look.at(task.repo)
    killing = Killing()
    task.at[call] = killing.now
    running = killing.start(task, "--conversation", task.name, "Make the failing test pass.")
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    task.at.clear()
    finished(start(task, "--resume", task.name))
    assert task.kinds().count("edit") == 1
    task.whole("convert/rounding.py")


def test_killed_during_a_command(stage: Make, clean_environment: Path, tmp_path: Path) -> None:
    """The command dies with it; the model learns that its progress is unknown, and runs it again."""
    configured(clean_environment)
    task = stage("python")
    task.name = "fix"
    mark = task.repo.top / "begun"

    def rule(see: Sight) -> str:
        result = see.ran("touch begun; sleep 31.4159; touch ended") if not mark_seen(see) else None
        return "<reject>it ended</reject>" if result else fix_rounding(see)

    def mark_seen(see: Sight) -> bool:
        return any("was interrupted" in text for text in see.results("run"))

    task.rule, task.before = rule, Look.at(task.repo)
    running = start(task, "--conversation", task.name, "Make the failing test pass.")
    wait_for(mark, running)
    running.kill()
    running.communicate()
    until = time.monotonic() + 5
    while "sleep 31.4159" in _processes():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not (task.repo.top / "ended").exists()
    mark.unlink()
    finished(start(task, "--resume", task.name))
    task.whole("convert/rounding.py")


@pytest.mark.parametrize("everyone", [False, True], ids=["alone", "with its children"])
def test_killed_during_the_commit(stage: Make, clean_environment: Path, everyone: bool) -> None:
    """During a hook of the commit; git continues alone, or is killed too."""
    configured(clean_environment)
    task = stage("python")
    task.name = "fix"
    mark = clean_environment / "hooked"
    task.repo.hook("pre-commit", f"test -e {mark} || {{ touch {mark}; sleep 2; }}\n")
    task.rule, task.before = fix_rounding, Look.at(task.repo)
    running = start(task, "--conversation", task.name, "Make the failing test pass.")
    wait_for(mark, running)
    if everyone:
        os.killpg(os.getpgid(running.pid), signal.SIGKILL)
    else:
        running.kill()
    running.communicate()
    if not everyone:
        committed(task)
    finished(start(task, "--resume", task.name))
    assert task.repo.git("log", "--format=%s", f"{task.before.head}..").count("\n") == 1
    assert task.repo.status() == ""
    assert everyone or task.record()["commits"] == [task.repo.head()]
    task.sound()
    names = task.repo.git("diff", "--name-only", f"{task.before.head}..HEAD").split()
    assert names == ["convert/rounding.py"]


def test_interrupted_by_the_user(stage: Make, clean_environment: Path) -> None:
    """^C during a call: exit code 130, unchanged files, and the run can be resumed."""
    configured(clean_environment)
    task = stage("python")
    task.name = "fix"
    task.rule, task.before = fix_rounding, Look.at(task.repo)
    held: list[program.Running] = []
    ready = threading.Event()

    def interrupt() -> None:
        ready.wait(20)
        held[0].send_signal(signal.SIGINT)
        time.sleep(0.5)

    task.at[6] = interrupt
    held.append(start(task, "--conversation", task.name, "Make the failing test pass."))
    ready.set()
    _, err = held[0].communicate()
    assert held[0].returncode == 130, err
    assert f"--resume {task.name}" in err.decode()
    task.sound("stopped")
    assert b"round(value)" in task.repo.read("convert/rounding.py")
    task.at.clear()
    finished(start(task, "--resume", task.name))
    task.whole("convert/rounding.py")


def test_a_commit_that_outlived_its_run_is_recorded(stage: Make, clean_environment: Path) -> None:
    configured(clean_environment)
    task = stage("python")
    task.name = "fix"
    mark = clean_environment / "hooked"
    task.repo.hook("pre-commit", f"test -e {mark} || {{ touch {mark}; sleep 1; }}\n")
    task.rule, task.before = fix_rounding, Look.at(task.repo)
    running = start(task, "--conversation", task.name, "Make the failing test pass.")
    wait_for(mark, running)
    running.kill()
    running.communicate()
    committed(task)
    finished(start(task, "--resume", task.name))
    assert task.record()["commits"] == [task.repo.head()]


def test_killed_between_the_write_and_its_observation(stage: Make, clean_environment: Path) -> None:
    """The edit is in the file and not yet in the conversation: it is not repeated, and it is committed."""
    configured(clean_environment, 'after_edit = "touch written; sleep 30"\n')
    task = stage("python")
    task.name, mark = "fix", task.repo.top / "written"
    (task.repo.top / ".git/info/exclude").write_text("written\n")
    task.rule, task.before = fix_rounding, Look.at(task.repo)
    running = start(task, "--conversation", task.name, "Make the failing test pass.")
    wait_for(mark, running)
    assert b"round(value)" in task.repo.read("convert/rounding.py")
    running.kill()
    running.communicate()
    mark.unlink()
    configured(clean_environment)
    finished(start(task, "--resume", task.name))
    task.whole("convert/rounding.py")
