"""Helpers for the commands that call a model themselves: the model, the estimate and the cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.session import Session
from repoagent.display_text import plural
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from types import SimpleNamespace

    from repoagent.cli.ui.progress import ProgressDisplay
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.llm.model import Usage
    from repoagent.storage.layout import Layout

FEW = 5  # model calls that need no confirmation


def open_for_summaries(
    session: Session, layout: Layout | None, options: SimpleNamespace
) -> tuple[Settings, Terminal]:
    """The settings and the terminal, with the model from --model or summary.model."""
    flags = {"model": options.model, "max_cost": options.max_cost}
    settings, terminal = session.open(layout, flags)
    if not options.model and (model := settings.text_or_none("summary.model")):
        settings, terminal = session.open(layout, {**flags, "model": model})
    return settings, terminal


def ready_for(
    settings: Settings, terminal: Terminal, *, record: Path | None, reply: Path | None = None
) -> ModelSetup:
    """Set up the model and its meter; the default of `max_turns` is not applied. Raises what `model_setup` raises."""
    from repoagent.edit.model_setup import model_setup

    ready = model_setup(settings, record, reply, terminal.warn)
    if settings.origin("max_turns") == "default":
        ready.meter.limits = replace(ready.meter.limits, turns=None)
    return ready


def confirm_calls(
    terminal: Terminal, ready: ModelSetup, objects: str, estimate: tuple[int, Usage, float | None],
    *, few: bool, less: str = "name fewer files",
) -> None:  # fmt: skip
    """Print what the model would summarize, with the estimate, and ask for confirmation unless there are only a `few`
    calls.

    `estimate` has the number of calls, the tokens and the cost; `less` is a hint on how to make fewer calls. Raises
    UsageError if the user cannot be asked, NothingDone if the answer is no.
    """
    from repoagent.llm.model import display_name
    from repoagent.llm.usage import cost_text

    calls, usage, cost = estimate
    price = "of unknown price" if cost is None else f"about {cost_text(cost)}"
    tokens = f"about {usage.input:,} tokens in and {usage.output:,} out"
    plan = f"would summarize {objects} in {plural(calls, 'call')}: {tokens}, {price}"
    sentence = f"{display_name(ready.model.spec)} {plan}"
    if few:
        if terminal.error_tty:
            terminal.note(sentence, "dim")
        return
    if not terminal.can_ask:
        raise UsageError(f"{sentence}; confirm with --yes, or {less}")
    terminal.note(sentence)
    if terminal.ask("Continue", {"y": "call the model", "n": "cancel"}) == "n":
        raise NothingDone("no model was called")


def charge(ready: ModelSetup, command: str, top: object, names: tuple[str, ...]) -> None:
    """Attribute later model calls in the log to `command` and to the files `names` below `top`."""
    if ready.meter.book is not None:
        ready.meter.book = ready.meter.book.about(command, str(top), names)


def retrying(working: ProgressDisplay) -> Callable[[float, str], None]:
    """A callback that prints why a call waits, and for how long."""
    return lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s")


def report(terminal: Terminal, ready: ModelSetup) -> None:
    """Print the tokens and the cost, if standard error is a terminal."""
    from repoagent.llm.usage import cost_text

    usage, cost = ready.meter.usage, ready.meter.cost
    if terminal.error_tty and usage.total:
        price = "price unknown" if cost is None else cost_text(cost)
        tokens = f"{'~' if usage.estimated else ''}{usage.total - usage.output:,} + {usage.output:,} tokens"
        terminal.note(f"{tokens} · {price}", "dim")


def spent_object(ready: ModelSetup | None) -> dict[str, object] | None:
    """The model, its calls, tokens and cost as JSON data."""
    from repoagent.llm.model import display_name

    if ready is None:
        return None
    usage = ready.meter.usage
    return {
        "model": display_name(ready.model.spec),
        "calls": ready.meter.attempts,
        "usage": {"input": usage.total - usage.output, "output": usage.output, "estimated": usage.estimated},
        "cost": ready.meter.cost,
    }
