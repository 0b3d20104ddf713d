"""How an edit ended, for a person in one line and for a program as JSON.

What a model says to the user, so that nothing of it is lost however the run ends.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.cli.ui.sanitize import clean, fold, one_line, paint
from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError

if TYPE_CHECKING:
    from repoagent.agent.loop import LoopEvent
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.checks import CheckResult
    from repoagent.edit.commit import CommitOutcome
    from repoagent.edit.edit import EditOutcome
    from repoagent.llm.model import Usage

VERSION = 1


def show_outcome(
    outcome: EditOutcome,
    terminal: Terminal,
    *,
    as_json: bool,
    said: Collection[str] = (),
    answered: bool = False,
    ending: str = "",
) -> None:
    """Print the result: the diff of a dry run, the answer to a question, else the commit and what it cost.

    The remarks in `said` are left out, and on a terminal an answer that was `answered` as it came. `ending`, the
    words of `finish`, is shown there, unless it is the commit message already.
    """
    if as_json:
        show_object(as_object(outcome), outcome.landed, terminal)
        return
    landed = outcome.landed
    if outcome.words and not terminal.tells:  # where they are shown as they come
        terminal.note(outcome.words)
    if landed is None:
        if not (answered and terminal.shows):
            terminal.reply(outcome.answer.strip() + "\n")
        if terminal.tells:
            terminal.note(f"no change was made · {spent(outcome)}", "dim")
        return
    if (
        ending
        and terminal.tells
        and " ".join(ending.split()) not in " ".join(landed.proposal.message.split())
    ):
        terminal.note(ending)
    show_landed(landed, terminal, spent(outcome), said)


def show_object(content: Mapping[str, object], landed: CommitOutcome | None, terminal: Terminal) -> None:
    """Print the result as JSON."""
    write = terminal.done if landed is not None and landed.written else terminal.result
    write(json.dumps(content, indent=2) + "\n")


def show_landed(landed: CommitOutcome, terminal: Terminal, spent: str, said: Collection[str] = ()) -> None:
    """Print the result of a change, the diff of a dry run or the commit, and after it what was `spent`. The remarks in
    `said` are left out."""
    for remark in landed.remarks:
        if remark not in said:
            terminal.note(f"note: {remark}")
    if not landed.written:
        terminal.diff(landed.proposal.diff)
        terminal.note(f"nothing was written (--dry-run) · {spent}")
        return
    if landed.check is not None:
        show_check(landed.check, terminal)
    subject = landed.proposal.message.split("\n", 1)[0]
    head, shown = "", f"written, not committed · {landed.proposal.stat} · {spent}"
    if landed.commit is not None:
        head = f"[{landed.commit.branch or 'detached HEAD'} {landed.commit.commit[:7]}]"
        shown = f"{head} {clean(subject)} · {landed.proposal.stat} · {spent}"
    if terminal.shows:
        shown = fold(shown, terminal.width)
    if terminal.color and head:
        shown = shown.replace(head, paint(head, "yellow"), 1)
    terminal.done(f"{shown}\n", styled=True)


def show_check(check: CheckResult, terminal: Terminal) -> None:
    """What a check that passed said: its last line."""
    if terminal.tells or terminal.verbose:
        from repoagent.agent.exec.output import drawn

        last = next((line for line in reversed(check.excerpt().split("\n")) if line.strip()), "")
        said = f": {one_line(drawn(last).strip(' ='))}" if last else ""
        terminal.note(f"check `{one_line(check.command)}` passed in {check.seconds:.1f} s{said}", "dim")


def spent(outcome: EditOutcome) -> str:
    """Tokens, cost and seconds, in one line."""
    return spending(outcome.usage, outcome.cost, outcome.seconds)


def spending(usage: Usage, cost: float | None, seconds: float) -> str:
    """Tokens, cost in US dollars (None: not known) and seconds, in one line."""
    from repoagent.llm.usage import cost_text

    about = "about " if usage.estimated else ""
    tokens = f"{about}{usage.total - usage.output:,} + {usage.output:,} tokens"
    if usage.cache_read:
        tokens += f" ({usage.cache_read:,} cached)"
    price = "" if cost is None else f" · {cost_text(cost)}"
    return f"{tokens}{price} · {seconds:.1f} s"


def as_object(outcome: EditOutcome) -> dict[str, object]:
    """The outcome as JSON data; its format has a version."""
    return {
        "version": VERSION,
        "outcome": outcome.kind,
        "edit": outcome.edit_id,
        **landed_object(outcome.landed),
        "answer": outcome.answer,
        "words": outcome.words,
        "messages": list(outcome.messages),
        "model": outcome.model,
        "usage": {
            "input": outcome.usage.input,
            "output": outcome.usage.output,
            "cache_read": outcome.usage.cache_read,
            "cache_write": outcome.usage.cache_write,
            "estimated": outcome.usage.estimated,
            "calls": outcome.attempts,
        },
        "cost": outcome.cost,
        "seconds": round(outcome.seconds, 3),
    }


def landed_object(landed: CommitOutcome | None) -> dict[str, object]:
    """What landed, as a part of JSON data; the same keys where nothing did."""
    made = landed.commit if landed else None
    return {
        "commit": made.commit if made else None,
        "parent": made.parent if made else None,
        "branch": made.branch if made else None,
        "files": [
            {"path": change.path, "old_path": change.old_path, "mode": change.mode}
            for change in (landed.changes if landed else ())
        ],
        "placements": [
            {
                "path": place.path,
                "hunk": place.hunk,
                "line": place.line,
                "level": place.level,
                "tolerances": list(place.tolerances),
            }
            for place in (landed.proposal.placements if landed else ())
        ],
        "diff": landed.proposal.diff if landed else "",
        "message": landed.proposal.message if landed else "",
        "remarks": list(landed.remarks) if landed else [],
        "check": {"command": landed.check.command, "seconds": round(landed.check.seconds, 3)}
        if landed and landed.check
        else None,
    }


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
