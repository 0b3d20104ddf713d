"""How an edit ended, for a person in one line and for a program as JSON; and the prompt it would send."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from repoagent.cli.text import clean, paint
from repoagent.errors import ModelError

if TYPE_CHECKING:
    from repoagent.cli.terminal import Terminal
    from repoagent.config import Settings
    from repoagent.edit import EditOutcome, EditRequest
    from repoagent.edit.commit import Landed
    from repoagent.llm import Part
    from repoagent.repo import WorkTree

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
        terminal.result(json.dumps(as_object(outcome), indent=2) + "\n")
        return
    landed = outcome.landed
    if landed is None:
        if not (answered and terminal.shows):
            terminal.result(outcome.answer.strip() + "\n")
        if terminal.tells:
            terminal.note(f"no change was made · {spent(outcome)}", "dim")
        return
    show_landed(landed, terminal, spent(outcome), said)


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
        terminal.styled(f"{shown} {clean(subject)} · {landed.proposal.stat} · {spent}\n")
    else:
        terminal.styled(f"written, not committed · {landed.proposal.stat} · {spent}\n")


def spent(outcome: EditOutcome) -> str:
    """Tokens, cost and seconds, in one line."""
    usage = outcome.usage
    about = "about " if usage.estimated else ""
    tokens = f"{about}{usage.total - usage.output:,} + {usage.output:,} tokens"
    if usage.cache_read:
        tokens += f" ({usage.cache_read:,} cached)"
    cost = "" if outcome.cost is None else f" · ${outcome.cost:.4f}"
    return f"{tokens}{cost} · {outcome.seconds:.1f} s"


def as_object(outcome: EditOutcome) -> dict[str, object]:
    """The outcome as JSON data; its format has a version."""
    return {
        "version": VERSION,
        "outcome": outcome.kind,
        "edit": outcome.edit_id,
        **landed_object(outcome.landed),
        "answer": outcome.answer,
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


def show_prompt(
    worktree: WorkTree,
    request: EditRequest,
    settings: Settings,
    terminal: Terminal,
    *,
    as_json: bool,
    count: bool,
) -> None:
    """Print exactly what the first call would send, block by block, and the tokens of each: estimated, and with `count`
    in all as the provider counts them."""
    from repoagent.edit import prepare
    from repoagent.edit.means import asked_for
    from repoagent.llm import Part, estimate_tokens

    prepared = prepare(worktree, request, settings, asked_for(settings, _spec(settings)))
    if prepared.question:
        blocks = [("user", Part(prepared.question, "question"))]
        terminal.note("A small model is asked first which part of the file it is about:", "dim")
    else:
        blocks = [("system", part) for prompt in prepared.prompts[:1] for part in prompt.system]
        blocks += [("user", part) for prompt in prepared.prompts for part in prompt.opening]
    rows = [
        {
            "role": role,
            "name": part.name,
            "tokens": estimate_tokens(part.text),
            "cache": part.cache,
            "text": part.text,
        }
        for role, part in blocks
    ]
    whole = _by_provider(settings, blocks) if count else None
    if as_json:
        terminal.result(json.dumps({"version": VERSION, "counted": whole, "blocks": rows}, indent=2) + "\n")
        return
    for row in rows:
        terminal.result(str(row["text"]))
    terminal.note("")
    for row in rows:
        breakpoint_ = "  cache breakpoint" if row["cache"] else ""
        terminal.note(f"{row['tokens']:>8,}  {row['role']:<6}  {row['name']}{breakpoint_}")
    terminal.note(f"{sum(estimate_tokens(part.text) for _, part in blocks):>8,}  tokens in all, estimated")
    if count:
        terminal.note(
            f"{whole:>8,}  as the provider counts" if whole else "the provider of this model does not count"
        )


def _by_provider(settings: Settings, blocks: Sequence[tuple[str, Part]]) -> int | None:
    from repoagent.llm import Message, Request, counted, open_model

    system = tuple(part for role, part in blocks if role == "system")
    message = Message("user", tuple(part for role, part in blocks if role == "user"))
    return counted(open_model(settings), Request(system, (message,)))


def _spec(settings: Settings) -> str:
    """The model whose prompt is shown: nothing is sent, so it needs no key."""
    from repoagent.llm import DEFAULT_MODEL, chosen

    try:
        return chosen(settings).spec
    except ModelError:
        return DEFAULT_MODEL
