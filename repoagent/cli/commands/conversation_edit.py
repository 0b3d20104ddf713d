"""`repoagent conversation edit` and `summarize`: rewrite a conversation, or summarize it with a model."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.conversation import (
    GROUP,
    VERSION,
    examples,
    name_argument,
    open_context,
    turns,
    word,
)
from repoagent.cli.options import (
    max_cost_option,
    model_option,
    record_option,
    reply_option,
    show_prompt_option,
)
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.errors import ModelError, NothingDone, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.cli.commands.conversation import ConversationContext
    from repoagent.edit.conversation_edit import RewriteRequest, RewriteResult
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.memory.conversation_log import Change
    from repoagent.memory.conversation_summary import Plan
    from repoagent.memory.conversations import StoredConversation
    from repoagent.memory.file_summary_store import Summary

EPILOG = examples(
    'edit parser "shorten the long answers"',
    'edit file:src/app.py "leave logging out" --user-turns',
    "edit parser          in your editor",
    more="\n\nThe exit codes 4 and 5 are about the model, as for an edit.",
)


@click.command(epilog=EPILOG)
@name_argument()
@click.argument("request", metavar="[REQUEST]", required=False)
@click.option("--user-turns", is_flag=True, help="Also change or remove your own turns.")
@click.option("-y", "--yes", is_flag=True, help="Save without asking.")
@click.option("-n", "--dry-run", is_flag=True, help="Show the diff; write nothing.")
@model_option
@max_cost_option
@record_option
@reply_option
@show_prompt_option
@json_option
@pass_session
def edit_command(session: Session, /, **values: Any) -> None:
    """RewriteRequest NAME as REQUEST says: a model sends a diff, which is checked, shown and written.

    Your own turns do not change unless you use --user-turns. REQUEST may be - for standard input; without a REQUEST
    your editor opens. `undo` undoes the change.
    """
    from repoagent.edit.conversation_edit import RewriteRequest, commit_rewrite
    from repoagent.memory.conversations import find

    options = SimpleNamespace(**values)
    context = open_context(session, {"model": options.model, "max_cost": options.max_cost})
    found = find(context.here, options.name, own=True)
    request = _request(options, context, found)
    if options.show_prompt:
        _show_prompt(context, RewriteRequest(found, request, options.user_turns), as_json=options.as_json)
        return
    ready: ModelSetup | None = None
    if request:
        done, ready = _by_model(options, context, RewriteRequest(found, request, options.user_turns))
    else:
        done = _by_hand(context, found)
    if options.dry_run:
        _answer(context, done, None, ready, as_json=options.as_json)
        return
    if not options.yes:
        _agree(context, done)
    _answer(context, done, commit_rewrite(context.layout, done), ready, as_json=options.as_json)


def _request(options: SimpleNamespace, context: ConversationContext, found: StoredConversation) -> str:
    """The request, "" for the editor. Raises UsageError if no terminal can answer."""
    text = options.request
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is not None and not text.strip():
        raise UsageError("the request is empty")
    if text is None and (options.show_prompt or not context.terminal.can_ask):
        raise UsageError(f'no request for {found.place.name}: use {GROUP} edit NAME "REQUEST"')
    if not (options.yes or options.dry_run or options.show_prompt or context.terminal.can_ask):
        raise UsageError(
            "cannot ask for confirmation without a terminal; use --yes to write it, or --dry-run to preview"
        )
    return (text or "").strip()


def _by_model(
    options: SimpleNamespace, context: ConversationContext, asked: RewriteRequest
) -> tuple[RewriteResult, ModelSetup]:
    from repoagent.cli.ui.progress import ready_for
    from repoagent.edit.conversation_edit import RewriteCallbacks, rewrite
    from repoagent.llm.model import display_name
    from repoagent.llm.provider import provider_of

    terminal = context.terminal
    waiting = terminal.working(f"reading {asked.original.place.name}")
    ready = ready_for(context.settings, terminal, waiting, record=options.record, reply=options.reply)
    if ready.meter.book is not None:
        names = (asked.original.place.about or asked.original.place.name,)
        ready.meter.book = ready.meter.book.about("edit", str(context.worktree.top), names)
    with waiting as working:
        working.label(f"asking {display_name(ready.model.spec)}")
        if provider_of(ready.model.spec).answered_by == "user":  # the user writes the reply
            working.quiet()
        listening = RewriteCallbacks(
            text=working.text if terminal.verbose else lambda piece: None,
            void=lambda text: working.note("(the reply broke off and was discarded)"),
            wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
            again=lambda why: _again(context, why, working.note, working.label),
        )
        return rewrite(context.layout, asked, ready, listening), ready


def _again(context: ConversationContext, why: str, note: Any, label: Any) -> None:
    """Report why the model is asked again."""
    if context.terminal.tells or context.terminal.verbose:
        lines = [line for line in why.split("\n") if line.strip()]
        note(f"not accepted: {lines[-1] if len(lines) > 1 else why}", "dim")
        label("asking again")


def _by_hand(context: ConversationContext, found: StoredConversation) -> RewriteResult:
    from repoagent.edit.conversation_edit import rewrite_in_editor

    text = found.text
    while True:
        text = context.terminal.edit_text(text, ".md") or ""
        if not text:
            raise NothingDone(f"the editor saved an empty text; {found.place.name} was not changed")
        try:
            return rewrite_in_editor(found, text)
        except Refused as error:
            context.terminal.note(str(error))
            if (
                context.terminal.ask("Continue editing", {"y": "open it again", "n": "discard your changes"})
                == "n"
            ):
                raise


def _agree(context: ConversationContext, done: RewriteResult) -> None:
    terminal = context.terminal
    terminal.note("")
    terminal.diff(done.diff, aside=True)
    if done.words:
        terminal.note(f"\n{done.words}\n", "dim")
    name = done.original.place.name
    if terminal.ask(f"Write this to {name}", {"y": "write it", "n": "discard it"}) == "n":
        raise NothingDone("nothing was changed")


def _answer(
    context: ConversationContext,
    done: RewriteResult,
    written: Change | None,
    ready: ModelSetup | None,
    *,
    as_json: bool,
) -> None:
    from repoagent.cli.ui.progress import as_object, report
    from repoagent.llm.model import display_name
    from repoagent.memory.conversation_log import digest

    terminal, place = context.terminal, done.original.place
    if as_json:
        paid = None if ready is None else {"model": display_name(ready.model.spec), **as_object(ready)}
        value = {
            "version": VERSION,
            "command": "edit",
            "name": place.name,
            "path": str(place.path),
            "written": written is not None,
            "before": digest(done.original.data),
            "after": digest(done.after),
            "diff": done.diff,
            "words": done.words,
            "asked": paid,
        }
        terminal.result(json.dumps(value, indent=2) + "\n")
        return
    if written is None:
        terminal.diff(done.diff)
        if terminal.tells:
            terminal.note("--dry-run: nothing was written", "dim")
    else:
        added, removed = (
            sum(line.startswith(mark) and not line.startswith(mark * 3) for line in done.diff.split("\n"))
            for mark in "+-"
        )
        stat = f"+{added} -{removed}"
        terminal.result(f"changed {place.name} ({stat}); undo it with `{GROUP} undo {word(place.name)}`\n")
    if ready is not None:
        report(terminal, ready)


def _show_prompt(context: ConversationContext, asked: RewriteRequest, *, as_json: bool) -> None:
    from repoagent.cli.commands.context import Block, ShownPrompt, show_texts
    from repoagent.config.options import DEFAULT_MODEL
    from repoagent.edit.conversation_edit import first_request
    from repoagent.edit.model_setup import answer_format
    from repoagent.llm.model import display_name
    from repoagent.llm.registry import choose_model
    from repoagent.llm.usage import estimate_tokens

    try:
        spec = choose_model(context.settings).spec
    except ModelError:  # nothing is sent, so it needs no key
        spec = DEFAULT_MODEL
    window = answer_format(context.settings, spec).window
    request = first_request(asked, max_output_tokens=0)
    pairs = [("system", part) for part in request.system]
    pairs += [(message.role, part) for message in request.messages for part in message.parts]
    last = max((place for place, (_, part) in enumerate(pairs) if part.cache), default=-1)
    blocks = tuple(
        Block(role, part, estimate_tokens(part.text), place <= last)
        for place, (role, part) in enumerate(pairs)
    )
    show_texts(
        ShownPrompt(display_name(spec), window, blocks), context.terminal, as_json=as_json, count=False
    )


FEW = 5  # model calls that need no confirmation
LEAST_WORDS, MOST_WORDS = 20, 1_000
WIDEST = 100  # columns of a line of prose


@click.command(
    epilog=examples(
        "summarize money",
        "summarize file:src/app.py --words 60",
        more="\n\nThe exit codes 4 and 5 are about the model, as for an edit.",
    )
)
@name_argument()
@click.option(
    "--words", type=click.IntRange(LEAST_WORDS, MOST_WORDS), metavar="N", default=150, show_default=True,
    help="The length of the summary, roughly.",
)  # fmt: skip
@model_option
@click.option("--refresh", is_flag=True, help="Replace summaries by a model; keep your corrections.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many model calls.")
@max_cost_option
@record_option
@reply_option
@json_option
@pass_session
def summarize_command(session: Session, /, **values: Any) -> None:
    """Summarize NAME: what was wanted, what was decided, what did not work and what is open.

    The summary is cached by the hash of the text, so the same text is paid for once.
    """
    from repoagent.memory.conversation_summary import plan
    from repoagent.memory.conversations import find

    options = SimpleNamespace(**values)
    flags = {"model": options.model, "max_cost": options.max_cost}
    context = open_context(session, flags)
    if not options.model and (model := context.settings.text_or_none("summary.model")):
        context = open_context(session, {**flags, "model": model})
    found = find(context.here, options.name)
    todo = plan(
        context.layout, found, words=options.words, refresh=options.refresh, warn=context.terminal.warn
    )
    if not todo.pieces:
        raise NothingDone(f"nothing to summarize: {found.place.name} is empty")
    if todo.summary is not None and not todo.calls:
        _show(context, found, todo, todo.summary, None, as_json=options.as_json)
        return
    _ask(context, found, todo, options)


def _ask(
    context: ConversationContext, found: StoredConversation, todo: Plan, options: SimpleNamespace
) -> None:
    from repoagent.cli.ui.progress import about, agree, as_object, ready_for, report
    from repoagent.llm.model import display_name
    from repoagent.memory.conversation_summary import estimated, summarize

    terminal = context.terminal
    waiting = terminal.working("asking the model")
    ready = ready_for(context.settings, terminal, waiting, record=options.record, reply=options.reply)
    usage = estimated(todo, options.words)
    price = ready.meter.price_of(ready.model.spec)
    first = todo.pieces[todo.known].first
    what = turns(todo.pieces[-1].last - first + 1)
    sentence = f"{display_name(ready.model.spec)} would summarize {what} "
    sentence += about(todo.calls, usage, None if price is None else price.of(usage))
    agree(terminal, sentence, few=options.yes or todo.calls <= FEW, less="name a shorter one")
    if ready.meter.book is not None:
        names = (found.place.about or found.place.name,)
        ready.meter.book = ready.meter.book.about("summarize", str(context.worktree.top), names)
    with waiting as working:
        summary = summarize(
            context.layout, found, todo, ready.model, ready.meter,
            words=options.words,
            on_piece=lambda number, of: working.label(_doing(found.place.name, number, of)),
            on_wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
        )  # fmt: skip
    paid = {"model": display_name(ready.model.spec), **as_object(ready)}
    _show(context, found, todo, summary, paid, as_json=options.as_json)
    report(terminal, ready)


def _doing(name: str, number: int, of: int) -> str:
    return f"summarizing {name}" + (f": part {number} of {of}" if of > 1 else "")


def _show(
    context: ConversationContext,
    found: StoredConversation,
    todo: Plan,
    summary: Summary,
    paid: dict[str, object] | None,
    *,
    as_json: bool,
) -> None:
    from repoagent.cli.commands.outline_summary import folded
    from repoagent.cli.ui.sanitize import clean
    from repoagent.memory.conversation_log import digest

    terminal = context.terminal
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
        state = "new" if paid else f"cached on {summary.date[:10]}"
        if summary.edited:
            state += ", corrected by you"
        place = "" if summary.place is None else f"; to correct it, edit {os.path.relpath(summary.place)}"
        terminal.note(f"{found.place.name}: {state}{place}", "dim")
