"""What a model says to the user, so that nothing of it is lost however the run ends."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent


@dataclass
class Told:
    """The `words` of the last reply, without its actions and patches, and the `messages` of all replies."""

    words: str = ""
    messages: list[str] = field(default_factory=list)

    def event(self, event: LoopEvent) -> None:
        if event.kind == "reply":
            self.words = event.words
        elif event.kind == "action" and event.action is not None and event.action.kind == "message":
            self.messages.append(event.action.body.strip())

    def add_to(self, error: BaseException) -> None:
        """Have an error that ends the run say it too, for `--json`."""
        if isinstance(error, RepoagentError):
            error.words, error.messages = self.words, tuple(filter(None, self.messages))
