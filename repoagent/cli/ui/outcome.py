"""An edit's outcome, as text and as JSON, and the model's messages to the user (`ModelOutput`)."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, field
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.display_text import one_line, paint, sanitize, wrap_line
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.apply import ApplyOutcome
    from repoagent.edit.checks import CheckResult
    from repoagent.edit.commit import CommitOutcome
    from repoagent.edit.edit import EditOutcome
    from repoagent.llm.model import Usage


def show_outcome(
    outcome: EditOutcome,
    terminal: Terminal,
    *,
    as_json: bool,
    shown_remarks: Collection[str] = (),
    answered: bool = False,
    ending: str = "",
) -> None:
    """Print the result of an edit and its cost. The result is the diff of a dry run, the answer to a question, or the
    commit.

    Remarks in `shown_remarks` are left out; on a terminal, so is an answer that was already streamed (`answered`).
    `ending`, the text of <finish>, is printed unless it is in the commit message.
    """
    result = outcome.result
    if as_json:
        show_json(
            outcome, terminal,
            answer=outcome.answer, words=outcome.words, messages=outcome.messages, model=outcome.model,
            usage=usage_object(outcome.usage, outcome.attempts), cost=outcome.cost,
        )  # fmt: skip
        return
    spent = spending_line(outcome.usage, outcome.cost, outcome.seconds)
    if outcome.words and not terminal.error_tty:  # a terminal shows them as they stream
        terminal.note(outcome.words)
    if result is None:
        if not (answered and terminal.output_tty):
            terminal.reply(outcome.answer.strip() + "\n")
        if terminal.error_tty:
            terminal.note(f"no change was made · {spent}", "dim")
        return
    if terminal.error_tty and " ".join(ending.split()) not in " ".join(result.proposal.message.split()):
        terminal.note(ending)
    show_commit(result, terminal, spent, shown_remarks)


def show_json(outcome: EditOutcome | ApplyOutcome, terminal: Terminal, **more: object) -> None:
    """Print the outcome as JSON, with the additional fields `more`. If the change was written, a failure to print is
    not an error."""
    from repoagent.api.results import change_fields

    result = outcome.result
    content = {
        "version": 1,
        "outcome": outcome.kind,
        "edit": outcome.edit_id,
        **change_fields(result),
        "check": check_object(result.check if result else None),
        **more,
        "seconds": round(outcome.seconds, 3),
    }
    write = terminal.done if result is not None and result.written else terminal.result
    write(json.dumps(content, indent=2, default=asdict) + "\n")


def show_commit(
    result: CommitOutcome, terminal: Terminal, spent: str, shown_remarks: Collection[str] = ()
) -> None:
    """Print inexact matches, the remarks except `shown_remarks`, and the commit (for a dry run, the diff) with the text
    `spent`."""
    from repoagent.edit.ui import placements_text, tolerated

    loose = tolerated(result.proposal.placements)
    if loose and not (terminal.error_tty and result.written):  # a question has shown them
        terminal.note(f"inexact match: {placements_text(loose)}")
    for remark in result.remarks:
        if remark not in shown_remarks:
            terminal.note(f"note: {remark}")
    if not result.written:
        terminal.diff(result.proposal.diff)
        terminal.note(f"nothing was written (--dry-run) · {spent}")
        return
    if result.check is not None:
        show_check(result.check, terminal)
    head, subject = "", "written, not committed"
    if result.commit is not None:
        head = f"[{result.commit.branch or 'detached HEAD'} {result.commit.commit[:7]}]"
        subject = f"{head} {sanitize(result.proposal.message.partition(chr(10))[0])}"
    shown = f"{subject} · {result.proposal.stat} · {spent}"
    if terminal.output_tty:
        shown = wrap_line(shown, terminal.width)
    if terminal.color and head:
        shown = shown.replace(head, paint(head, "yellow"), 1)
    terminal.done(f"{shown}\n", styled=True)


def show_check(check: CheckResult, terminal: Terminal) -> None:
    """Print that a check passed, with the last line of its output."""
    if terminal.error_tty or terminal.verbose:
        from repoagent.agent.exec.render_output import render_line

        last = next((line for line in reversed(check.excerpt().split("\n")) if line.strip()), "")
        output = f": {one_line(render_line(last).strip(' ='))}" if last else ""
        terminal.note(f"check `{one_line(check.command)}` passed in {check.seconds:.1f} s{output}", "dim")


def spending_line(usage: Usage, cost: float | None, seconds: float) -> str:
    """Tokens, cost in US dollars (None: unknown) and seconds in one line."""
    from repoagent.llm.usage import cost_text

    about = "about " if usage.estimated else ""
    tokens = f"{about}{usage.total - usage.output:,} + {usage.output:,} tokens"
    if usage.cache_read:
        tokens += f" ({usage.cache_read:,} cached)"
    price = "" if cost is None else f" · {cost_text(cost)}"
    return f"{tokens}{price} · {seconds:.1f} s"


def usage_object(usage: Usage, calls: int) -> dict[str, object]:
    """The JSON data of calls and tokens."""
    names = ("input", "output", "cache_read", "cache_write", "estimated")
    return {**{name: getattr(usage, name) for name in names}, "calls": calls}


def check_object(check: CheckResult | None) -> dict[str, object] | None:
    """The JSON data of a passed check; None without a check."""
    return {"command": check.command, "seconds": round(check.seconds, 3)} if check else None


@dataclass
class ModelOutput:
    """The prose of the last reply (`words`), and the `messages` to the user in all replies."""

    words: str = ""
    messages: list[str] = field(default_factory=list)

    def event(self, event: LoopEvent) -> None:
        if event.kind == "reply":
            self.words = event.words
        elif event.kind == "action" and event.action is not None and event.action.kind == "message":
            self.messages.append(event.action.body.strip())

    def add_to(self, error: BaseException) -> None:
        """Attach the prose and messages to the error that ended the run, for `--json`."""
        if isinstance(error, RepoagentError):
            error.words, error.messages = self.words, tuple(filter(None, self.messages))
