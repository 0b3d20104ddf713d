"""The terminal interface of a run: shows progress and asks for approval; without a terminal, it refuses requests."""

from __future__ import annotations

import shlex
from dataclasses import field, replace
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from repoagent.agent.approvals.policy import ApprovalRequest, Asker, Mode, Verdict
from repoagent.cli.ui.table import longest_prefix
from repoagent.cli.ui.terminal_interface import TerminalInterface, first_line
from repoagent.dataclass import dataclass
from repoagent.display_text import display_width, sanitize
from repoagent.edit.ui import Decision, Proposal

if TYPE_CHECKING:
    from repoagent.agent.actions import Observation
    from repoagent.agent.loop import LoopEvent
    from repoagent.cli.ui.progress import ProgressDisplay
    from repoagent.cli.ui.terminal import Terminal

_QUESTIONS = {
    "command": "Run this command",
    "python": "Run this Python code",
    "edit": "Make this change",
    "include": "Commit this file with your changes",
    "write": "Write this file",
    "delete": "Keep these files deleted",
    "sensitive": "Keep this file as the command wrote it",
    "browse": "Fetch this page",
    "tool": "Call this tool",
    "delegate": "Start this subagent",
}
_RUNS = {"command", "python"}
_BELOW = 8  # lines of the screen below the request


def ask_user(terminal: Terminal) -> Asker:
    """An asker that shows the whole request and asks the user. If the answer is "q", it raises RunStopped."""

    def ask(request: ApprovalRequest) -> Verdict:
        from repoagent.tasks.runs.control import RunStopped

        width = max(20, terminal.width - 4)
        lines = folded(request.what, width)
        terminal.note("")
        for line in lines:
            terminal.note(f"    {line}" if line else "", "bold")
        terminal.note("")
        if len(lines) > get_terminal_size().lines - _BELOW:
            terminal.warn(f"{len(lines)} lines; scroll up to see the beginning")
        if request.kind in _RUNS and not request.sandbox:
            terminal.warn("this runs without a sandbox, with all your permissions")
        elif request.sandbox:
            terminal.note(f"in a sandbox ({request.sandbox})")
        if request.why:
            terminal.note(f"note: {request.why}")
        if request.patterns:
            terminal.note("always allow, for this run (a) or for this repository (r):")
            for pattern in request.patterns:
                for line in folded(pattern, width):
                    terminal.note(f"    {line}")
        include = request.kind == "include"
        question = _QUESTIONS.get(request.kind, "Do this")
        choices = {"y": "yes, this once"}
        if request.patterns:
            again, patterns = "yes, and do not ask again in this", "; ".join(request.patterns)
            choices |= {"a": f"{again} run: {patterns}", "r": f"{again} repository: {patterns}"}
        choices["n"] = "no, commit nothing" if include else "no, and tell the model why"
        answer = terminal.ask(question, {**choices, "q": "stop the run"})
        if answer == "q":
            message = "you stopped the run; its changes so far are kept"
            raise RunStopped(message, f'stopped at the question "{question.lower()}"')
        if answer == "n" and include:
            return Verdict(False)  # a reason would not help the model
        if answer == "n":
            reason = terminal.ask_line("Tell the model why (optional)")
            return Verdict(False, reason=f"the user said no: {reason}" if reason else "the user said no.")
        return Verdict(True, always=answer in {"a", "r"}, keep=answer == "r")

    return ask


def refuse_all(request: ApprovalRequest) -> Verdict:
    """Refuse a request because there is no terminal to ask on, and name the option that would allow it."""
    reason = "no user to ask for approval" + (f" ({request.why})" if request.why else "")
    allow = "`--mode auto`, which runs commands in a sandbox" if request.kind in _RUNS else "a terminal"
    allow = f"The user can allow it with {allow}"
    if request.kind in {"edit", "write"}:
        allow += " or `--mode auto-edit`"
    if request.patterns:
        add = "git config --add repoagent.run.allow"
        rules = ", ".join(f"`{add} {shlex.quote(pattern)}`" for pattern in request.patterns)
        allow = f"The user can allow it beforehand: {rules}"
    return Verdict(False, reason=f"{reason}. {allow}.", by="nobody")


def folded(text: str, width: int) -> list[str]:
    """Wrap `text` into lines of at most `width` columns, without control characters. A wrapped line ends in ↩."""
    lines: list[str] = []
    for line in text.rstrip("\n").split("\n"):
        shown = sanitize(line).expandtabs(8)
        while display_width(shown) > width:
            start = longest_prefix(shown, width - 2) or shown[:1]
            blank = start.rfind(" ", max(1, len(start) - 20))  # a nearby space
            start = start[: blank + 1] if blank > 0 else start
            lines.append(f"{start} ↩")
            shown = shown[len(start) :]
        lines.append(shown)
    return lines


@dataclass
class RunTerminal(TerminalInterface):
    """A `RunInterface` for a terminal or a pipe.

    A "no" to an edit ends the run unless the user gives a reason. `asker` approves requests. With `yes`, edits need no
    approval.
    """

    asker: Asker = field(default=refuse_all)
    _runs: str = ""
    _user_refused: bool = False  # the current action

    @classmethod
    def of(cls, terminal: Terminal, working: ProgressDisplay, mode: Mode) -> RunTerminal:
        asker = ask_user(terminal) if terminal.can_ask else refuse_all
        return cls(terminal, working, yes=mode in {"auto", "auto-edit"}, commits=False, asker=asker)

    def decide(self, proposal: Proposal) -> Decision:
        """Show a proposed edit and ask for a decision. A commit is accepted without asking, because its edits were
        shown when they were written."""
        from repoagent.tasks.runs.control import RunStopped

        if proposal.message:
            return Decision("yes")
        if not self.yes and not self.terminal.can_ask:
            return Decision("no", reason="no terminal to ask for approval: edits need `--mode auto-edit`.")
        decision = super().decide(proposal)
        if decision.kind == "no" and not decision.reason:
            raise RunStopped("you rejected the change; the run has stopped", "stopped at a rejected change")
        return decision

    def event(self, event: LoopEvent) -> None:
        if event.action is not None and event.action.kind in {"run", "python"}:
            self.answered = False
            self._runs = first_line(event.action.body)
            self.note(f"{event.action.kind} {self._runs}")
            return
        observation = event.observation
        if observation is not None and observation.kind == "run" and observation.data.get("exit") is not None:
            self._ran(observation)
            if observation.ok and not self.terminal.verbose:
                return
            output = observation.text.partition("<output")[2].partition("\n")[2].rpartition("</output")[0]
            event = replace(
                event,
                observation=replace(observation, shown=f"\n{output.rstrip()}" if output.strip() else ""),
            )
        elif observation is not None and self._user_refused:
            self._user_refused = False
            event = replace(event, observation=replace(observation, shown=""))
        super().event(event)

    def approve(self, request: ApprovalRequest) -> Verdict:
        self._show_refused()
        self.working.quiet()
        verdict = self.asker(request)
        self._user_refused = not verdict.allowed and verdict.by != "nobody"
        return verdict

    def progress(self, kind: str, data: dict[str, object]) -> None:
        pass

    def _ran(self, observation: Observation) -> None:
        took = observation.data.get("seconds")
        time = f", {took:.1f} s" if isinstance(took, float) and took >= 0.1 else ""
        end = f" → exit {observation.data['exit']}{time}" if observation.data.get("exit") is not None else ""
        room = max(20, self.terminal.width - display_width(end) - 4)
        shown = self._runs
        if display_width(shown) > room:
            shown = shown[: room - 2] + " …"
        self._dim_note(f"run {shown}{end}")
