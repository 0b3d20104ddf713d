"""The interface between an edit and its user, and its non-interactive implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from repoagent.dataclass import dataclass
from repoagent.display_text import plural
from repoagent.edit.guards.risky_changes import Concern
from repoagent.git.files import FileChange
from repoagent.patch.locate.exact import Placement
from repoagent.patch.refusal import SPACED, TOLERANCES

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent

CANCELLED = "cancelled: nothing was changed"  # the beginning of the error after the user rejected a change
USUAL = {"numbers", "counts", "blank-context"}


@dataclass(frozen=True)
class DiffStat:
    files: int
    added: int  # lines, none for binary files
    removed: int

    def __str__(self) -> str:
        return f"{plural(self.files, 'file')} +{self.added} -{self.removed}"


@dataclass(frozen=True)
class Proposal:
    """A change that applies and awaits review.

    `concerns` are its sensitive files; `remarks` for the user include those about `concerns`.
    """

    changes: tuple[FileChange, ...]
    diff: str
    stat: DiffStat
    message: str
    placements: tuple[Placement, ...]
    remarks: tuple[str, ...] = ()
    concerns: tuple[Concern, ...] = ()
    accepted: bool = False  # the user has seen and accepted it


@dataclass(frozen=True)
class Decision:
    """The user's decision. `revise` means that the user edited the diff, and is asked again."""

    kind: Literal["yes", "no", "revise"]
    reason: str = ""  # of a "no", for the model
    changes: tuple[FileChange, ...] | None = None  # instead of the proposed ones
    by_person: bool = False


class UserInterface(Protocol):
    """The interface to the user: a terminal, or a pipe that never answers."""

    @property
    def waited(self) -> float: ...  # seconds spent waiting for answers

    def text(self, piece: str) -> None: ...  # a piece of the model's reply as it arrives
    def void(self, text: str) -> None: ...  # discard text that was streamed by an attempt that failed
    def event(self, event: LoopEvent) -> None: ...
    def note(self, sentence: str) -> None: ...  # a transient line
    def say(self, sentence: str) -> None: ...  # a permanent line that the user must see
    def running(self, command: str, output: Path) -> None: ...  # a command writes to the file `output`
    def quiet(self) -> None: ...  # release the terminal to another program
    def interrupted(self, sentence: str) -> None: ...  # ^C ended the edit
    def output(self, data: bytes) -> None: ...  # of git and its hooks during the commit
    def decide(self, proposal: Proposal) -> Decision: ...

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        """After a "yes", ask again about sensitive files that were not requested; None if there is no user to ask."""

    def permits(self, paths: Sequence[str]) -> bool | None:
        """Ask whether the model may also change these files; None if there is no user to ask."""


def tolerances_text(placement: Placement) -> str:
    """Describe the tolerances with which a hunk was placed, except very common ones; "" if there are none."""
    names = ({placement.level, *placement.tolerances} & TOLERANCES.keys()) - USUAL
    if placement.level == "new-file" and "whitespace" in names:
        return SPACED
    return ", and ".join(TOLERANCES[name] for name in sorted(names))


def tolerated(placements: Sequence[Placement]) -> list[Placement]:
    return [placement for placement in placements if tolerances_text(placement)]


def placements_text(placements: Sequence[Placement]) -> str:
    """List where the hunks were applied, with any tolerances: "src/app.py:12, src/app.py:40"."""
    return ", ".join(
        f"{placement.path}:{placement.line}"
        + (f" ({words})" if (words := tolerances_text(placement)) else "")
        for placement in placements
    )


@dataclass
class NonInteractive:
    """A `UserInterface` without a user, which accepts a change if `agree` returns True.

    Sensitive files that were not requested are refused. `hear` is called with progress notes, `on_text` with each piece
    of a reply. `sentences` collects the permanent messages.
    """

    agree: Callable[[Proposal], bool] = lambda proposal: True
    hear: Callable[[str], None] = lambda sentence: None
    on_text: Callable[[str], None] = lambda piece: None
    sentences: list[str] = field(default_factory=list)
    waited: float = 0.0

    def text(self, piece: str) -> None:
        self.on_text(piece)

    def note(self, sentence: str) -> None:
        self.hear(sentence)

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def interrupted(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def running(self, command: str, output: Path) -> None:
        self.hear(f"running {command}")

    def decide(self, proposal: Proposal) -> Decision:
        return Decision("yes" if self.agree(proposal) else "no")

    def agrees(self, concerns: Sequence[Concern]) -> bool | None: ...
    def permits(self, paths: Sequence[str]) -> bool | None: ...
    def void(self, text: str) -> None: ...
    def event(self, event: LoopEvent) -> None: ...
    def quiet(self) -> None: ...
    def output(self, data: bytes) -> None: ...  # if a hook fails, the error contains it
