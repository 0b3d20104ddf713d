"""The seam between an edit and the person: what is shown, what is asked, what is answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from repoagent.dataclass import dataclass
from repoagent.edit.verify.readback import DiffStat
from repoagent.edit.verify.sensitive import Concern
from repoagent.patch import Placement
from repoagent.patch.tolerances import SPACED, TOLERANCES
from repoagent.repo.change import FileChange

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent

SAID_NO = "nothing was changed, as you said"  # how the end of an edit begins that a person did not want
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


class Dialogue(Protocol):
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
    return [place for place in placements if needed(place)]


def summary(placements: Sequence[Placement]) -> str:
    """Where the hunks went and what each needed, in one line."""
    places = [
        f"{place.path}:{place.line}" + (f" ({words})" if (words := needed(place)) else "")
        for place in placements
    ]
    return ", ".join(places)


def needed(place: Placement) -> str:
    """The tolerances in words, but for slips that nearly all answers have and that say nothing of the place; "" for
    none."""
    names = ({place.level, *place.tolerances} & TOLERANCES.keys()) - USUAL
    if place.level == "new-file" and "whitespace" in names:
        return SPACED
    return ", and ".join(TOLERANCES[name] for name in sorted(names))
