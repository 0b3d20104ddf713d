"""A room for a kernel in a folder, with a gate that lets everything pass."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Gate, Verdict
from repoagent.agent.exec.command_runner import CommandRunner
from repoagent.agent.python_tool import KernelSession
from repoagent.agent.sandbox.backends import Sandbox, unconfined, why_ended
from repoagent.agent.sandbox.policy import Policy, scrubbed


class Desk:
    """The tool of a room, called as the loop calls it, and what the audit was told."""

    def __init__(self, base: Path, sandbox: Sandbox | None = None, **limits: int) -> None:
        self.events: list[Mapping[str, object]] = []
        self.top, self.scratch = base / "top", base / "scratch"
        self.top.mkdir(exist_ok=True)
        policy = Policy(self.top, self.scratch, memory=limits.get("memory"))

        def wrap(argv: object, report: Path | None = None, may: str = "all") -> list[str]:
            return (sandbox.wrap if sandbox else unconfined)(argv, policy, report)  # type: ignore[operator]

        name = sandbox.name if sandbox else ""
        gate = Gate("ask", lambda asked: Verdict(True), top=self.top, audit=self.events.append, sandbox=name)
        env = scrubbed(os.environ, policy)
        env.pop(
            "PYTEST_CURRENT_TEST", None
        )  # where it is set, ipykernel leaves what programs print to pytest
        self.runner = CommandRunner(
            self.top, base / "output", env, gate, wrap=wrap,
            why_ended=why_ended, audit=self.events.append, shown_as=lambda path: f"output/{path.name}",
        )  # fmt: skip
        self.room = KernelSession(self.runner, self.scratch, sys.executable)
        self.tool = self.room.tool()

    def run(self, code: str, **args: str) -> Observation:
        return self.tool.perform(Action("python", args, code))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.room.close()
