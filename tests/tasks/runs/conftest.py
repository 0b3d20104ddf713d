"""A run in its own process, controlled by the test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from repoagent.cli import listen
from repoagent.llm.model import Usage
from repoagent.storage.layout import Layout
from repoagent.tasks.runs.control import live_run
from repoagent.tasks.runs.directory import RunDirectory, RunRecord

USED = Usage(input=100, output=20)
Start = Callable[..., "Worker"]


class Worker:
    """A run that is live in another process until it is ended or killed."""

    def __init__(self, run_dir: RunDirectory, about: RunRecord) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.run_dir = run_dir
        self.pid = os.fork()
        if not self.pid:
            os.close(self._commands)
            os.close(self._answers)
            _work(run_dir, about, commands, answers)
        os.close(commands)
        os.close(answers)
        self._waited = False
        assert self.answer() == "alive"

    def ask(self, *words: str) -> None:
        os.write(self._commands, json.dumps(words).encode() + b"\n")

    def answer(self) -> Any:
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self._answers, 1)
            assert piece, "the run is gone"
            line += piece
        return json.loads(line)

    def control(self) -> Any:
        """The new messages; "RunStopped" if the run must stop."""
        self.ask("control")
        return self.answer()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def end(self, state: str = "done", text: str = "all of it") -> None:
        self.ask("end", state, text)
        self.wait()

    def wait(self) -> int:
        if not self._waited:
            self._waited = True
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 0

    def close(self) -> None:
        if not self._waited:
            self.kill()
        os.close(self._commands)
        os.close(self._answers)


def _work(run_dir: RunDirectory, about: RunRecord, commands: int, answers: int) -> NoReturn:
    def say(value: object) -> None:
        os.write(answers, json.dumps(value).encode() + b"\n")

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    listen()
    turns = 0
    try:
        with live_run(run_dir, about, warn=lambda sentence: None) as live, open(commands) as orders:
            say("alive")
            for line in orders:
                match json.loads(line):
                    case ["control"]:
                        say([*live.control().values()])
                    case ["turn", doing]:
                        turns += 1
                        used = Usage(100 * turns, 20 * turns)
                        live.turn(turns=turns, activity=doing, usage=used, cost=0.25 * turns)
                        say("turned")
                    case ["end", state, text]:
                        live.ended(state, text)
                        break
    except BaseException as error:  # noqa: BLE001, a fork of a test must not come back into it
        say(type(error).__name__)
    os._exit(0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / ".git").mkdir()
    return Layout(tmp_path / ".repoagent", tmp_path / ".git")


@pytest.fixture
def start(layout: Layout) -> Iterator[Callable[..., Worker]]:
    """Start the run `name` in its own process."""
    workers: list[Worker] = []

    def start(name: str = "task", **about: Any) -> Worker:
        workers.append(Worker(RunDirectory(layout, name), RunRecord(**{"prompt": "do it", **about})))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()
