"""A kernel session in a folder, with a gate that allows everything."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Gate, Verdict
from repoagent.agent.exec.tools import CommandRunner
from repoagent.agent.python_tool import KernelSession
from repoagent.agent.sandbox.backends import Sandbox, unconfined, why_ended
from repoagent.agent.sandbox.policy import Policy, scrubbed


class Desk:
    """The tool of a session, called as the loop calls it, and the audited events."""

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
        env.pop("PYTEST_CURRENT_TEST", None)  # if set, ipykernel does not capture the output of programs
        self.runner = CommandRunner(
            self.top, base / "output", env, gate, wrap=wrap,
            why_ended=why_ended, audit=self.events.append, shown_as=lambda path: f"output/{path.name}",
        )  # fmt: skip
        self.session = KernelSession(self.runner, self.scratch, sys.executable)
        self.tool = self.session.tool()

    def run(self, code: str, **args: str) -> Observation:
        return self.tool.perform(Action("python", args, code))


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.session.close()
