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
from tests.tasks.scenarios.stage import FIX, MODEL, Look, Stage, seen

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


@pytest.fixture
def task(stage: Make, clean_environment: Path) -> Stage:
    configured(clean_environment)
    task = stage()
    task.name, task.replies, task.before = "fix", FIX, Look.at(task.repo)
    return task


def begin(task: Stage) -> program.Running:
    return start(task, "--conversation", task.name, "Make the failing test pass.")


def signalled(task: Stage, call: int, number: signal.Signals) -> program.Running:
    """A run that gets a signal during a call, and ended then."""
    running: list[program.Running] = []
    ready = threading.Event()

    def send() -> None:
        ready.wait(20)
        running[0].send_signal(number)
        if number == signal.SIGINT:
            time.sleep(0.5)

    task.at[call] = send
    running.append(begin(task))
    ready.set()
    running[0].wait()
    task.at.clear()
    return running[0]


@pytest.mark.parametrize("call", [1, 4])
def test_killed_during_a_model_call(task: Stage, call: int) -> None:
    running = signalled(task, call, signal.SIGKILL)
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    finished(start(task, "--resume", task.name))
    assert task.kinds().count("edit") == 1
    task.whole("convert/rounding.py")


def test_killed_during_a_command(task: Stage) -> None:
    """The command dies with it; the model learns that its progress is unknown."""
    mark = task.repo.top / "begun"
    wait = "<run>touch begun; sleep 31.4159; touch ended</run>"
    task.replies = (wait, seen("This was interrupted", str(FIX[0])), *FIX[1:])
    running = begin(task)
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
def test_killed_during_the_commit(task: Stage, clean_environment: Path, everyone: bool) -> None:
    """During a hook of the commit; git continues alone, or is killed too."""
    mark = clean_environment / "hooked"
    task.repo.hook("pre-commit", f"test -e {mark} || {{ touch {mark}; sleep 2; }}\n")
    running = begin(task)
    wait_for(mark, running)
    if everyone:
        os.killpg(os.getpgid(running.pid), signal.SIGKILL)
    else:
        running.kill()
    running.communicate()
    if not everyone:
        committed(task)
    finished(start(task, "--resume", task.name))
    assert task.repo.git("rev-list", "--count", f"{task.before.head}..") == "1\n"  # type: ignore[union-attr]
    assert task.repo.status() == ""
    assert task.record()["commits"] == [task.repo.head()]
    task.sound()
    assert task.repo.git("diff", "--name-only", "HEAD^") == "convert/rounding.py\n"


def test_interrupted_by_the_user(task: Stage) -> None:
    """^C during a call: exit code 130, unchanged files, and the run can be resumed."""
    running = signalled(task, 4, signal.SIGINT)
    _, err = running.communicate()
    assert running.returncode == 130, err
    assert f"--resume {task.name}" in err.decode()
    task.sound("stopped")
    assert b"round(value)" in task.repo.read("convert/rounding.py")
    finished(start(task, "--resume", task.name))
    task.whole("convert/rounding.py")


def test_killed_between_the_write_and_its_observation(task: Stage, clean_environment: Path) -> None:
    """The edit is in the file and not yet in the conversation: it is not repeated, and it is committed."""
    configured(clean_environment, 'after_edit = "touch written; sleep 30"\n')
    mark = task.repo.top / "written"
    (task.repo.top / ".git/info/exclude").write_text("written\n")
    running = begin(task)
    wait_for(mark, running)
    assert b"round(value)" in task.repo.read("convert/rounding.py")
    running.kill()
    running.communicate()
    mark.unlink()
    configured(clean_environment)
    finished(start(task, "--resume", task.name))
    task.whole("convert/rounding.py")
