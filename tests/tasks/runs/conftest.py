"""A run in its own process, controlled by the test."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

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
        fork = multiprocessing.get_context("fork")
        self.run_dir = run_dir
        self._pipe, other = fork.Pipe()
        self._process = fork.Process(target=_work, args=(run_dir, about, other))
        self._process.start()
        self.pid = self._process.pid
        other.close()
        assert self.answer() == "alive"

    def ask(self, *words: str) -> None:
        self._pipe.send(words)

    def answer(self) -> Any:
        return self._pipe.recv()

    def control(self) -> Any:
        """The new messages; "RunStopped" if the run must stop."""
        self.ask("control")
        return self.answer()

    def kill(self) -> None:
        self._process.kill()
        self.wait()

    def end(self, state: str = "done", text: str = "all of it") -> None:
        self.ask("end", state, text)
        self.wait()

    def wait(self) -> None:
        self._process.join()


def _work(run_dir: RunDirectory, about: RunRecord, pipe: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    listen()
    turns = 0
    try:
        with live_run(run_dir, about, warn=lambda sentence: None) as live:
            pipe.send("alive")
            while True:
                match pipe.recv():
                    case ["control"]:
                        pipe.send([*live.control().values()])
                    case ["turn", doing]:
                        turns += 1
                        used = Usage(100 * turns, 20 * turns)
                        live.turn(turns=turns, activity=doing, usage=used, cost=0.25 * turns)
                        pipe.send("turned")
                    case ["end", state, text]:
                        live.ended(state, text)
                        break
    except BaseException as error:  # noqa: BLE001, a fork of a test must not come back into it
        pipe.send(type(error).__name__)


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
        worker.kill()
