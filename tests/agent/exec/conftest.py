"""The command tools in a folder, with a gate that allows everything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Gate, Verdict
from repoagent.agent.exec.tools import CommandRunner


class Bench:
    """The tools, called as the loop calls them, and the audited events."""

    def __init__(self, top: Path) -> None:
        self.events: list[Mapping[str, object]] = []
        gate = Gate("ask", asker=lambda asked: Verdict(True), top=top, audit=self.events.append)
        self.runner = CommandRunner(
            top, top.parent / "output", dict(os.environ), gate, audit=self.events.append
        )
        self.runner.shown_as = lambda path: f"output/{path.name}"
        self.tools = {tool.name: tool for tool in self.runner.tools()}

    def run(self, body: str, **args: str) -> Observation:
        return self.tools["run"].perform(Action("run", args, body))

    def wait(self, **args: str) -> Observation:
        return self.tools["wait"].perform(Action("wait", args))

    def kill(self, **args: str) -> Observation:
        return self.tools["kill"].perform(Action("kill", args))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    (tmp_path / "top").mkdir()
    bench = Bench(tmp_path / "top")
    yield bench
    bench.runner.close()


def until(true: Callable[[], object]) -> None:
    """Wait until `true` is; fail after some seconds."""
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "that took too long"
        time.sleep(0.02)
