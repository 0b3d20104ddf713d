"""The seam between a run and the person: all that an edit needs, and the questions that only a run has."""

from __future__ import annotations

from typing import Protocol

from repoagent.agent.approval import Asked, Verdict
from repoagent.edit.dialogue import Dialogue


class Talk(Dialogue, Protocol):
    """Who a run talks to: a person at a terminal, a program that reads events, or nobody."""

    def approve(self, asked: Asked) -> Verdict:
        """Ask whether something may be done."""
        ...

    def progress(self, what: str, data: dict[str, object]) -> None:
        """Something that a program may want to know as it happens: a turn ended, a checkpoint, a child, a commit."""
        ...
