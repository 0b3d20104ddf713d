"""The seam between an edit and the person: what is shown, what is asked, what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from repoagent.agent import LoopEvent
from repoagent.edit.readback import DiffStat
from repoagent.patch import Placement
from repoagent.repo.change import FileChange


@dataclass(frozen=True)
class Proposal:
    """A change that fits and waits for a yes. `diff` is canonical; `remarks` are what a person should know."""

    changes: tuple[FileChange, ...]
    diff: str
    stat: DiffStat
    message: str
    placements: tuple[Placement, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What the person said. `no` with a reason goes back to the model; `changes` replace the proposed ones on a yes
    (chosen hunks, an edited diff); `explain` has the model account for the change, and the question comes again."""

    kind: Literal["yes", "no", "explain"]
    reason: str = ""
    changes: tuple[FileChange, ...] | None = None


class Dialogue(Protocol):
    """Who the edit talks to: a person at a terminal, or a pipe that never answers."""

    def text(self, piece: str) -> None:
        """A piece of the model's reply as it arrives."""
        ...

    def void(self, text: str) -> None:
        """That text, streamed by an attempt that broke, does not count."""
        ...

    def event(self, event: LoopEvent) -> None:
        """An action was taken, or something was observed."""
        ...

    def note(self, sentence: str) -> None:
        """Something worth a line: a wait, a remark, what is being done."""
        ...

    def say(self, sentence: str) -> None:
        """A line that stays: what a person must know however it goes on, in a pipe too."""
        ...

    def quiet(self) -> None:
        """Leave the terminal to another program."""
        ...

    def output(self, data: bytes) -> None:
        """What git and its hooks print while they commit."""
        ...

    def decide(self, proposal: Proposal) -> Decision:
        """Ask about `proposal`."""
        ...

    def explained(self, text: str) -> None:
        """The model's answer to `explain`, which was streamed as `text` too; or why there is none."""
        ...


def summary(placements: Sequence[Placement]) -> str:
    """Where the hunks went and what tolerance each needed, in one line."""
    places = [f"{p.path}:{p.line}" + (f" ({p.level})" if p.level != "exact" else "") for p in placements]
    return ", ".join(places)
