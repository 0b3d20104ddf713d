"""What a command says, and asks, before and after a model is paid for many calls; an edit has words of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from repoagent.cli.screen.terminal import Terminal
    from repoagent.cli.screen.working import Working
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.llm import Usage


def ready_for(
    settings: Settings,
    terminal: Terminal,
    waiting: Working,
    *,
    record: Path | None = None,
    reply: Path | None = None,
) -> Means:
    """The model and its meter for a command that knows how many calls it makes: the default of `max_turns` is a limit
    for an edit. Raises what `means` raises."""
    from repoagent.edit.means import means

    ready = means(settings, record, reply, terminal.warn, waiting.progress)
    if settings.origin("max_turns") == "default":
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def about(calls: int, usage: Usage, cost: float | None) -> str:
    """How many calls, how many tokens, how many dollars: the end of the sentence that says what will be paid."""
    from repoagent.llm.usage import cost_text

    price = "at a price that is not known" if cost is None else f"about {cost_text(cost)}"
    return f"in {calls:,} call{'s' * (calls > 1)}: about {usage.input:,} tokens in and {usage.output:,} out, {price}"


def agree(terminal: Terminal, sentence: str, *, few: bool, less: str) -> None:
    """Say what it will cost; ask, unless it is only a `few` calls. `less` is what to say for fewer of them.

    Raises UsageError where nobody can say yes, NothingDone where somebody says no.
    """
    if few:
        if terminal.tells:
            terminal.note(sentence, "dim")
        return
    if not terminal.can_ask:
        raise UsageError(f"{sentence}: say --yes to do that, or {less}")
    terminal.note(sentence)
    if terminal.ask("Go on", {"y": "ask the model", "n": "ask nobody"}) == "n":
        raise NothingDone("no model was asked")


def report(terminal: Terminal, ready: Means) -> None:
    """Say what was used, where somebody reads it."""
    from repoagent.llm.usage import cost_text

    usage, cost = ready.meter.usage, ready.meter.cost
    if terminal.tells and usage.total:
        price = "price unknown" if cost is None else cost_text(cost)
        roughly = "~" if usage.estimated else ""
        terminal.note(f"{roughly}{usage.total - usage.output:,} + {usage.output:,} tokens · {price}", "dim")


def as_object(ready: Means) -> dict[str, object]:
    """What was used, as JSON data."""
    usage = ready.meter.usage
    return {
        "calls": ready.meter.attempts,
        "usage": {
            "input": usage.total - usage.output,
            "output": usage.output,
            "estimated": usage.estimated,
        },
        "cost": ready.meter.cost,
    }
