"""The `Dialogue` of a program: nothing is shown and nobody is asked, unless it brings the functions for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.dialogue import Decision, Proposal

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent
    from repoagent.edit.verify.sensitive import Concern


def _ignore(*_: object) -> None:
    """Nobody listens."""


def _yes(proposal: Proposal) -> bool:
    return True


@dataclass
class Silent:
    """A change is made when `agree` says yes to it; sensitive files that nobody asked for are refused, since there is
    nobody to ask apart.

    `hear` gets a sentence of what is being done, `on_text` each piece of what a model writes. What must be known
    however it goes on is in `said`.
    """

    agree: Callable[[Proposal], bool] = _yes
    hear: Callable[[str], None] = _ignore
    on_text: Callable[[str], None] = _ignore
    said: list[str] = field(default_factory=list)
    waited: float = 0.0

    def text(self, piece: str) -> None:
        self.on_text(piece)

    def void(self, text: str) -> None:
        _ignore(text)

    def event(self, event: LoopEvent) -> None:
        _ignore(event)

    def note(self, sentence: str) -> None:
        self.hear(sentence)

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    def running(self, command: str, output: Path) -> None:
        self.hear(f"running {command}")

    def quiet(self) -> None:
        _ignore()

    def interrupted(self, sentence: str) -> None:
        self.said.append(sentence)

    def output(self, data: bytes) -> None:
        """What hooks print is kept out: where one says no, the error has it."""
        _ignore(data)

    def decide(self, proposal: Proposal) -> Decision:
        return Decision("yes" if self.agree(proposal) else "no")

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        return None

    def permits(self, paths: Sequence[str]) -> bool | None:
        return None

    def explained(self, text: str) -> None:
        _ignore(text)
