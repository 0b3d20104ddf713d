"""Helpers of the commands that summarize with a model: the model, the estimate, the cost, the output."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from repoagent.cli.session import Session
from repoagent.cli.ui.output_style import Page
from repoagent.cli.ui.terminal_text import clean

if TYPE_CHECKING:
    from types import SimpleNamespace

    from repoagent.cli.ui.progress import Working
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.llm.model import Usage
    from repoagent.memory.file_summary_store import Summary
    from repoagent.storage.layout import Layout

FEW = 5  # model calls that need no confirmation


def open_for_summaries(
    session: Session, layout: Layout | None, options: SimpleNamespace
) -> tuple[Settings, Terminal]:
    """The settings and the terminal, with the model of --model or summary.model."""
    flags = {"model": options.model, "max_cost": options.max_cost}
    settings, terminal = session.open(layout, flags)
    if not options.model and (model := settings.text_or_none("summary.model")):
        settings, terminal = session.open(layout, {**flags, "model": model})
    return settings, terminal


def confirm_calls(
    terminal: Terminal, ready: ModelSetup, objects: str, estimate: tuple[int, Usage, float | None],
    *, few: bool, less: str = "name fewer files",
) -> None:  # fmt: skip
    """Print what the model would summarize and the `estimate` of calls, tokens and cost; ask unless they are `few`."""
    from repoagent.cli.ui.progress import about, agree
    from repoagent.llm.model import display_name

    sentence = f"{display_name(ready.model.spec)} would summarize {objects} {about(*estimate)}"
    agree(terminal, sentence, few=few, less=less)


def charge(ready: ModelSetup, command: str, top: object, names: tuple[str, ...]) -> None:
    """Log later model calls as those of `command` about these files."""
    if ready.meter.book is not None:
        ready.meter.book = ready.meter.book.about(command, str(top), names)


def retrying(working: Working) -> Callable[[float, str], None]:
    """A callback that prints why and how long a call waits."""
    return lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s")


def spent_object(ready: ModelSetup | None) -> dict[str, object] | None:
    """The model, its calls, tokens and cost as JSON data."""
    from repoagent.cli.ui.progress import as_object
    from repoagent.llm.model import display_name

    return None if ready is None else {"model": display_name(ready.model.spec), **as_object(ready)}


def summary_object(summary: Summary) -> dict[str, object]:
    """A summary as JSON data; edit `file` to correct it."""
    return {
        "summary": summary.text,
        "model": summary.model,
        "date": summary.date,
        "edited": summary.edited,
        "file": summary.place,
    }


def summary_lines(summary: Summary, page: Page) -> Iterator[str]:
    """The text, wrapped with a hanging indent for the items of lists."""
    for line in clean(summary.text).split("\n"):
        words = line.lstrip()
        yield from page.wrap(words, line[: len(line) - len(words)], "  " if words.startswith("- ") else "")


def correction(summary: Summary, otherwise: str = "") -> str:
    """The file that the user can edit to correct a summary, as the end of a sentence."""
    return otherwise if summary.place is None else f"; to correct it, edit {os.path.relpath(summary.place)}"
