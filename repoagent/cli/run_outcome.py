"""How a run ended, for a person and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from repoagent.cli.text import clean, paint

if TYPE_CHECKING:
    from repoagent.cli.terminal import Terminal
    from repoagent.work import RunOutcome

VERSION = 1
SHOWN = 8  # files


def show_run(outcome: RunOutcome, terminal: Terminal, *, as_json: bool, answered: bool = False) -> None:
    """Print the run's last word, its commits, and what it used. What was `answered` as it came is not said again."""
    if as_json:
        terminal.result(json.dumps(as_object(outcome), indent=2) + "\n")
        return
    if outcome.text.strip() and not (answered and terminal.shows):
        terminal.result(outcome.text.strip() + "\n")
    for commit in outcome.commits:
        shown = paint(commit[:7], "yellow") if terminal.color_err else commit[:7]
        terminal.note(f"committed {shown}")
    if outcome.left:
        names = ", ".join(map(clean, outcome.left[:SHOWN])) + (" …" if len(outcome.left) > SHOWN else "")
        terminal.note(f"written, not committed: {names}")
    terminal.note(f"{outcome.name} · {spent(outcome)}", "dim")


def spent(outcome: RunOutcome) -> str:
    usage = outcome.usage
    about = "about " if usage.estimated else ""
    tokens = f"{about}{usage.total - usage.output:,} + {usage.output:,} tokens"
    if usage.cache_read:
        tokens += f" ({usage.cache_read:,} cached)"
    cost = "" if outcome.cost is None else f" · ${outcome.cost:.4f}"
    calls = f"{outcome.turns} call{'s' * (outcome.turns != 1)}"
    return f"{calls} · {tokens}{cost} · {outcome.seconds:.1f} s"


def as_object(outcome: RunOutcome) -> dict[str, object]:
    """The outcome as JSON data; its format has a version."""
    usage = outcome.usage
    return {
        "version": VERSION,
        "outcome": outcome.kind,
        "run": outcome.name,
        "text": outcome.text,
        "commits": list(outcome.commits),
        "left": list(outcome.left),
        "model": outcome.model,
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "estimated": usage.estimated,
            "calls": outcome.turns,
        },
        "cost": outcome.cost,
        "seconds": round(outcome.seconds, 3),
    }
