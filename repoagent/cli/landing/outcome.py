"""How an edit ended, for a person in one line and for a program as JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from repoagent.cli.screen.clean import clean, paint

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.edit import EditOutcome
    from repoagent.edit.landing.commit import Landed
    from repoagent.llm import Usage

VERSION = 1


def show_outcome(
    outcome: EditOutcome,
    terminal: Terminal,
    *,
    as_json: bool,
    said: Collection[str] = (),
    answered: bool = False,
) -> None:
    """Print the result: the diff of a dry run, the answer to a question, else the commit and what it cost.

    The remarks in `said` are left out, and on a terminal an answer that was `answered` as it came.
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
    show_landed(landed, terminal, spent(outcome), said)


def show_object(content: Mapping[str, object], landed: Landed | None, terminal: Terminal) -> None:
    """Print the result as JSON."""
    write = terminal.done if landed is not None and landed.written else terminal.result
    write(json.dumps(content, indent=2) + "\n")


def show_landed(landed: Landed, terminal: Terminal, spent: str, said: Collection[str] = ()) -> None:
    """Print the result of a change, the diff of a dry run or the commit, and after it what was `spent`. The remarks in
    `said` are left out."""
    for remark in landed.remarks:
        if remark not in said:
            terminal.note(f"note: {remark}")
    if not landed.written:
        terminal.diff(landed.proposal.diff)
        terminal.note(f"nothing was written (--dry-run) · {spent}")
        return
    subject = landed.proposal.message.split("\n", 1)[0]
    if landed.commit is not None:
        head = f"[{landed.commit.branch or 'detached HEAD'} {landed.commit.commit[:7]}]"
        shown = paint(head, "yellow") if terminal.color else head
        terminal.done(f"{shown} {clean(subject)} · {landed.proposal.stat} · {spent}\n", styled=True)
    else:
        terminal.done(f"written, not committed · {landed.proposal.stat} · {spent}\n", styled=True)


def spent(outcome: EditOutcome) -> str:
    """Tokens, cost and seconds, in one line."""
    return spending(outcome.usage, outcome.cost, outcome.seconds)


def spending(usage: Usage, cost: float | None, seconds: float) -> str:
    """Tokens, cost in US dollars (None: not known) and seconds, in one line."""
    about = "about " if usage.estimated else ""
    tokens = f"{about}{usage.total - usage.output:,} + {usage.output:,} tokens"
    if usage.cache_read:
        tokens += f" ({usage.cache_read:,} cached)"
    dollars = "" if cost is None else f" · ${cost:.4f}"
    return f"{tokens}{dollars} · {seconds:.1f} s"


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


def landed_object(landed: Landed | None) -> dict[str, object]:
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
