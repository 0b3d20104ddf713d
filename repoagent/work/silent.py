"""The `Talk` of a program: nobody is asked, unless it brings the functions for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from repoagent.agent.approval import Asked, Verdict
from repoagent.dataclass import dataclass
from repoagent.edit.silent import Silent

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent

NOBODY = "there is nobody to ask; the program that runs this has to allow it"


def _nobody(asked: Asked) -> bool:
    return False


def _ignore(event: LoopEvent) -> None:
    pass


@dataclass
class SilentTalk(Silent):
    """As of an edit. `allow` is asked what a person would be: whether a command may run, and the like; `on_event` gets
    each action and observation."""

    allow: Callable[[Asked], bool] = _nobody
    on_event: Callable[[LoopEvent], None] = _ignore

    def approve(self, asked: Asked) -> Verdict:
        return (
            Verdict(True, by="program") if self.allow(asked) else Verdict(False, reason=NOBODY, by="nobody")
        )

    def event(self, event: LoopEvent) -> None:
        self.on_event(event)

    def progress(self, what: str, data: dict[str, object]) -> None:
        self.hear(f"{what}: {data}")
