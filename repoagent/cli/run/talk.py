"""A run's side of the conversation with a person: what an edit shows and asks, and what only a run has."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from repoagent.cli.landing.dialogue import Talk, first_line
from repoagent.cli.run.asking import nobody, person
from repoagent.cli.screen.clean import columns
from repoagent.dataclass import dataclass
from repoagent.edit import Decision, Proposal

if TYPE_CHECKING:
    from repoagent.agent import LoopEvent, Observation
    from repoagent.agent.approval import Asked, Asker, Mode, Verdict
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.cli.screen.working import Working


@dataclass
class RunTalk(Talk):
    """A `work.Talk` over a terminal or a pipe: each command is a line with how it ended, a no without a reason ends
    the run. `asker` is asked whether something may be done; with `yes` edits are not asked about."""

    asker: Asker = field(default=nobody)
    _runs: str = ""
    _said_no: bool = False  # the user, to what is performed now

    @classmethod
    def of(cls, terminal: Terminal, working: Working, mode: Mode) -> RunTalk:
        """The talk of a run in this mode."""
        asker = person(terminal) if terminal.can_ask else nobody
        return cls(terminal, working, yes=mode in {"auto", "auto-edit"}, commits=False, asker=asker)

    def decide(self, proposal: Proposal) -> Decision:
        """Show the diff and ask; nothing is shown of what is committed, for it was shown as it was written."""
        from repoagent.work.home import Stopped

        if proposal.message:
            return Decision("yes")
        if not self.yes and not self.terminal.can_ask:
            return Decision("no", reason="there is nobody to ask: edits need `--mode auto-edit` here.")
        decision = super().decide(proposal)
        if decision.kind == "no" and not decision.reason:
            raise Stopped("as you said, that change was not made", "stopped at a change, which was not made")
        return decision

    def event(self, event: LoopEvent) -> None:
        if event.action is not None and event.action.kind in {"run", "python"}:
            self.answered = False
            self._runs = first_line(event.action.body)
            self.note(f"{event.action.kind} {self._runs}")
            return
        seen = event.observation
        if seen is not None and seen.kind == "run" and seen.data.get("exit") is not None:
            self._ran(seen)
            if seen.ok and not self.terminal.verbose:
                return
            output = seen.text.partition("<output")[2].partition("\n")[2].rpartition("</output")[0]
            event = replace(
                event, observation=replace(seen, shown=f"\n{output.rstrip()}" if output.strip() else "")
            )
        elif seen is not None and self._said_no:
            self._said_no = False
            event = replace(event, observation=replace(seen, shown=""))
        super().event(event)

    def approve(self, asked: Asked) -> Verdict:
        self._say_refused()
        self.working.quiet()
        verdict = self.asker(asked)
        self._said_no = not verdict.allowed and verdict.by != "nobody"
        return verdict

    def progress(self, what: str, data: dict[str, object]) -> None:
        pass

    def _ran(self, seen: Observation) -> None:
        """The command, its exit code and its time; of a refusal the first line was said."""
        took = seen.data.get("seconds")
        time = f", {took:.1f} s" if isinstance(took, float) and took >= 0.1 else ""
        end = f" → exit {seen.data['exit']}{time}" if seen.data.get("exit") is not None else ""
        room = max(20, self.terminal.width - columns(end) - 4)
        shown = self._runs
        if columns(shown) > room:
            shown = shown[: room - 2] + " …"
        self._aside(f"run {shown}{end}")
