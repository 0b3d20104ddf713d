"""`repoagent conversation summarize`: what was said, in a few sentences of a model."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.conversation.common import VERSION, examples, name_argument, open_desk, turns
from repoagent.cli.program.model_options import (
    max_cost_option,
    model_option,
    record_option,
    reply_option,
)
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import NothingDone

if TYPE_CHECKING:
    from repoagent.cli.conversation.common import Desk
    from repoagent.memory.conversations.places import Held
    from repoagent.memory.conversations.summary import Plan
    from repoagent.memory.summaries.store import Summary

FEW = 5  # calls that are made without a question
LEAST_WORDS, MOST_WORDS = 20, 1_000
WIDEST = 100  # columns of a line of prose


@click.command(
    epilog=examples(
        "summarize money",
        "summarize file:src/app.py --words 60",
        more="\n4 and 5 are about the model, as for an edit.",
    )
)
@name_argument()
@click.option(
    "--words", type=click.IntRange(LEAST_WORDS, MOST_WORDS), metavar="N", default=150, show_default=True,
    help="The length of the summary, roughly.",
)  # fmt: skip
@model_option
@click.option("--refresh", is_flag=True, help="Ask again for what a model wrote; keep your corrections.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many model calls.")
@max_cost_option
@record_option
@reply_option
@json_option
@pass_session
def command(session: Session, /, **options: Any) -> None:
    """Say what was wanted in NAME, what was decided, what did not work and what is open.

    The answer is kept under the hash of what was summarized: asked again, nothing is paid until more was said.
    """
    from repoagent.memory.conversations import find
    from repoagent.memory.conversations.summary import plan

    given = SimpleNamespace(**options)
    flags = {"model": given.model, "max_cost": given.max_cost}
    desk = open_desk(session, flags)
    if not given.model and (model := desk.settings.text_or_none("summary.model")):
        desk = open_desk(session, {**flags, "model": model})
    found = find(desk.here, given.name)
    todo = plan(desk.layout, found, words=given.words, refresh=given.refresh, warn=desk.terminal.warn)
    if not todo.pieces:
        raise NothingDone(f"nothing is said in {found.place.name}: there is nothing to summarize")
    if todo.summary is not None and not todo.calls:
        _show(desk, found, todo, todo.summary, None, as_json=given.as_json)
        return
    _ask(desk, found, todo, given)


def _ask(desk: Desk, found: Held, todo: Plan, given: SimpleNamespace) -> None:
    from repoagent.cli.screen.paying import about, agree, as_object, ready_for, report
    from repoagent.llm.naming import shown
    from repoagent.memory.conversations.summary import estimated, summarize

    terminal = desk.terminal
    waiting = terminal.working("asking the model")
    ready = ready_for(desk.settings, terminal, waiting, record=given.record, reply=given.reply)
    usage = estimated(todo, given.words)
    price = ready.meter.price_of(ready.model.spec)
    first = todo.pieces[todo.known].first
    what = turns(todo.pieces[-1].last - first + 1)
    sentence = f"{shown(ready.model.spec)} would summarize {what} "
    sentence += about(todo.calls, usage, None if price is None else price.of(usage))
    agree(terminal, sentence, few=given.yes or todo.calls <= FEW, less="name a shorter one")
    if ready.meter.book is not None:
        names = (found.place.about or found.place.name,)
        ready.meter.book = ready.meter.book.about("summarize", str(desk.worktree.top), names)
    with waiting as working:
        summary = summarize(
            desk.layout, found, todo, ready.model, ready.meter,
            words=given.words,
            on_piece=lambda number, of: working.label(_doing(found.place.name, number, of)),
            on_wait=lambda seconds, why: working.note(f"{why}; trying again in {seconds:.0f} s"),
        )  # fmt: skip
    paid = {"model": shown(ready.model.spec), **as_object(ready)}
    _show(desk, found, todo, summary, paid, as_json=given.as_json)
    report(terminal, ready)


def _doing(name: str, number: int, of: int) -> str:
    return f"summarizing {name}" + (f": part {number} of {of}" if of > 1 else "")


def _show(
    desk: Desk, found: Held, todo: Plan, summary: Summary, paid: dict[str, object] | None, *, as_json: bool
) -> None:
    from repoagent.cli.outline.summary_table import folded
    from repoagent.cli.screen.clean import clean
    from repoagent.memory.conversations.past import digest

    terminal = desk.terminal
    if as_json:
        value = {
            "version": VERSION,
            "name": found.place.name,
            "sha256": digest(found.data),
            "turns": len(found.conversation.turns),
            "summary": summary.text,
            "model": summary.model,
            "date": summary.date,
            "edited": summary.edited,
            "kept": None if summary.place is None else str(summary.place),
            "asked": paid,
        }
        terminal.result(json.dumps(value, indent=2) + "\n")
        return
    text = clean(summary.text)
    wide = max(20, min(WIDEST, terminal.width))
    lines = [folded(line, wide) for line in text.split("\n")] if terminal.shows else [text]
    terminal.styled("\n".join(lines) + "\n")
    if terminal.tells or terminal.verbose:
        state = "asked" if paid else f"known since {summary.date[:10]}"
        if summary.edited:
            state += ", corrected by a person"
        place = "" if summary.place is None else f"; to correct it, edit {os.path.relpath(summary.place)}"
        terminal.note(f"{found.place.name}: {state}{place}", "dim")
