"""A run's side of the conversation with a person: what an edit shows and asks, and what only a run has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from repoagent.agent.approval import Verdict
from repoagent.cli.dialogue import Talk
from repoagent.edit import Decision, Proposal

if TYPE_CHECKING:
    from repoagent.agent.approval import Asked, Asker


def _nobody(asked: Asked) -> Verdict:
    return Verdict(False, reason="there is nobody to ask")


@dataclass
class RunTalk(Talk):
    """A `work.Talk` over a terminal or a pipe. `asker` is asked whether something may be done; with `yes` edits are
    not asked about."""

    asker: Asker = field(default=_nobody)

    def decide(self, proposal: Proposal) -> Decision:
        """Show the diff and ask; nothing is shown of what is committed, for it was shown as it was written."""
        if proposal.message:
            return Decision("yes")
        if not self.yes and not self.terminal.can_ask:
            return Decision("no", reason="there is nobody to ask: edits need `--mode auto-edit` here.")
        return super().decide(proposal)

    def approve(self, asked: Asked) -> Verdict:
        self.working.quiet()
        return self.asker(asked)

    def progress(self, what: str, data: dict[str, object]) -> None:
        pass
