"""The seam between an edit and the person: what is shown, what is asked, what is answered.

The `Dialogue` of a program: nothing is shown and nobody is asked, unless it brings the functions for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from repoagent.dataclass import dataclass
from repoagent.edit.diff_stat import DiffStat
from repoagent.edit.guards.sensitive import Concern
from repoagent.git.files import FileChange
from repoagent.patch.errors import SPACED, TOLERANCES
from repoagent.patch.locate.exact import Placement

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent

CANCELLED = "cancelled: nothing was changed"  # how the end of an edit begins that a person did not want
USUAL = {"numbers", "counts", "blank-context"}


@dataclass(frozen=True)
class Proposal:
    """A change that fits and waits for a yes. `diff` is canonical; `remarks` are what a person should know, and among
    them those of the `concerns`, the files that make another program do something. `accepted`: a person has seen it and
    said yes."""

    changes: tuple[FileChange, ...]
    diff: str
    stat: DiffStat
    message: str
    placements: tuple[Placement, ...]
    remarks: tuple[str, ...] = ()
    concerns: tuple[Concern, ...] = ()
    accepted: bool = False


@dataclass(frozen=True)
class Decision:
    """What the person said. `no` with a reason goes back to the model; `changes` replace the proposed ones on a yes
    (chosen hunks), and on `revise` too, where the question comes again (an edited diff); `explain` has the model
    account for the change, and the question comes again.
    `by_person`: somebody was shown the change and asked."""

    kind: Literal["yes", "no", "explain", "revise"]
    reason: str = ""
    changes: tuple[FileChange, ...] | None = None
    by_person: bool = False


class UserInterface(Protocol):
    """Who the edit talks to: a person at a terminal, or a pipe that never answers."""

    @property
    def waited(self) -> float:
        """Seconds that were spent waiting for answers: they are not the edit's."""
        ...

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

    def running(self, command: str, output: Path) -> None:
        """A command was started; what it prints goes to the file `output`."""
        ...

    def quiet(self) -> None:
        """Leave the terminal to another program."""
        ...

    def interrupted(self, sentence: str) -> None:
        """A ^C ended the edit; what is so now."""
        ...

    def output(self, data: bytes) -> None:
        """What git and its hooks print while they commit."""
        ...

    def decide(self, proposal: Proposal) -> Decision:
        """Ask about `proposal`."""
        ...

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        """After a yes: ask once more, for the files that nobody asked for; None when there is nobody to ask."""
        ...

    def permits(self, paths: Sequence[str]) -> bool | None:
        """Ask whether the model may change these files too; None when there is nobody to ask."""
        ...

    def explained(self, text: str) -> None:
        """The model's answer to `explain`, which was streamed as `text` too; or why there is none."""
        ...


def tolerated(placements: Sequence[Placement]) -> list[Placement]:
    """Those of which a person should know what they needed."""
    return [place for place in placements if tolerances_text(place)]


def summary(placements: Sequence[Placement]) -> str:
    """Where the hunks went and what each needed, in one line."""
    places = [
        f"{place.path}:{place.line}" + (f" ({words})" if (words := tolerances_text(place)) else "")
        for place in placements
    ]
    return ", ".join(places)


def tolerances_text(place: Placement) -> str:
    """The tolerances in words, but for slips that nearly all answers have and that say nothing of the place; "" for
    none."""
    names = ({place.level, *place.tolerances} & TOLERANCES.keys()) - USUAL
    if place.level == "new-file" and "whitespace" in names:
        return SPACED
    return ", and ".join(TOLERANCES[name] for name in sorted(names))


def _ignore(*_: object) -> None:
    """Nobody listens."""


def _yes(proposal: Proposal) -> bool:
    return True


@dataclass
class NonInteractive:
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
