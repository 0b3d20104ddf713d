"""`repoagent conversation edit` and `summarize`: rewrite a conversation, or summarize it with a model."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands.conversation import GROUP, examples, name_argument, resolver, undo_command
from repoagent.cli.commands.outline_summary import (
    FEW,
    open_for_summaries,
    spent_object,
    summary_lines,
    summary_object,
)
from repoagent.cli.options import (
    max_cost_option,
    model_option,
    record_option,
    reply_option,
    show_prompt_option,
)
from repoagent.cli.repository import Repository, open_repository
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import plural
from repoagent.errors import NothingDone, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.edit.conversation_edit import RewriteRequest, RewriteResult
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.memory.conversation_changes import Change
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
    """Rewrite NAME as REQUEST says: a model sends a diff, which is checked, shown and written.

    Your own turns do not change unless you use --user-turns. REQUEST may be - for standard input; without a REQUEST
    your editor opens. `undo` undoes the change.
    """
    from repoagent.edit.conversation_edit import RewriteRequest, commit_rewrite, first_request
    from repoagent.memory.conversations import find

    options = SimpleNamespace(**values)
    repo = open_repository(session, {"model": options.model, "max_cost": options.max_cost})
    stored = find(resolver(repo), options.name, own=True)
    text = _request(options, repo, stored)
    request = RewriteRequest(stored, text, options.user_turns)
    if options.show_prompt:
        from repoagent.cli.commands.context import show_request

        prompt = first_request(request, max_output_tokens=0)
        show_request(prompt, repo.settings, repo.terminal, as_json=options.as_json)
        return
    ready: ModelSetup | None = None
    if text:
        result, ready = _ask_model(options, repo, request)
    else:
        result = _open_editor(repo, stored)
    change: Change | None = None
    if not options.dry_run:
        if not options.yes:
            _confirm(repo, result)
        change = commit_rewrite(repo.layout, result)
    _show_result(repo, result, change, ready, as_json=options.as_json)


def _request(options: SimpleNamespace, repo: Repository, stored: StoredConversation) -> str:
    """The request, "" for the editor. Raises UsageError if no terminal can answer."""
    text = options.request
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is not None and not text.strip():
        raise UsageError("the request is empty")
    if text is None and (options.show_prompt or not repo.terminal.can_ask):
        raise UsageError(f'no request for {stored.place.name}: use {GROUP} edit NAME "REQUEST"')
    if not (options.yes or options.dry_run or options.show_prompt or repo.terminal.can_ask):
        raise UsageError(
            "cannot ask for confirmation without a terminal; use --yes to write it, or --dry-run to preview"
        )
    return (text or "").strip()


def _ask_model(
    options: SimpleNamespace, repo: Repository, request: RewriteRequest
) -> tuple[RewriteResult, ModelSetup]:
    from repoagent.cli.ui.progress import ready_for
    from repoagent.edit.conversation_edit import RewriteCallbacks, rewrite
    from repoagent.llm.model import display_name
    from repoagent.llm.registry import provider_of

    terminal, place = repo.terminal, request.original.place
    waiting = terminal.working(f"reading {place.name}")
    ready = ready_for(repo.settings, terminal, waiting, record=options.record, reply=options.reply)
    if ready.meter.book is not None:
        ready.meter.book = ready.meter.book.about(
            "edit", str(repo.worktree.top), (place.about or place.name,)
        )
    with waiting as working:
        working.label(f"asking {display_name(ready.model.spec)}")
        if provider_of(ready.model.spec).answered_by == "user":  # the user writes the reply
            working.quiet()

        def ask_again(why: str) -> None:
            if terminal.tells or terminal.verbose:
                lines = [line for line in why.split("\n") if line.strip()]
                working.note(f"not accepted: {lines[-1] if len(lines) > 1 else why}", "dim")
                working.label("asking again")

        callbacks = RewriteCallbacks(
            text=working.text if terminal.verbose else lambda piece: None,
            void=lambda text: working.note("(the reply broke off and was discarded)"),
            wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
            again=ask_again,
        )
        return rewrite(repo.layout, request, ready, callbacks), ready


def _open_editor(repo: Repository, stored: StoredConversation) -> RewriteResult:
    from repoagent.edit.conversation_edit import rewrite_in_editor

    text = stored.text
    while True:
        text = repo.terminal.edit_text(text, ".md") or ""
        if not text:
            raise NothingDone(f"the editor saved an empty text; {stored.place.name} was not changed")
        try:
            return rewrite_in_editor(stored, text)
        except Refused as error:
            repo.terminal.note(str(error))
            choices = {"y": "open it again", "n": "discard your changes"}
            if repo.terminal.ask("Continue editing", choices) == "n":
                raise


def _confirm(repo: Repository, result: RewriteResult) -> None:
    repo.terminal.note("")
    repo.terminal.diff(result.diff, aside=True)
    if result.words:
        repo.terminal.note(f"\n{result.words}\n", "dim")
    question = f"Write this to {result.original.place.name}"
    repo.confirm(question, ("write it", "discard it"), refusal=question, declined="nothing was changed")


def _show_result(
    repo: Repository, result: RewriteResult, change: Change | None, ready: ModelSetup | None, *, as_json: bool
) -> None:
    from repoagent.cli.ui.progress import report
    from repoagent.memory.conversation_changes import digest

    terminal, place = repo.terminal, result.original.place
    if as_json:
        content = {
            "command": "edit",
            "name": place.name,
            "path": str(place.path),
            "written": change is not None,
            "before": digest(result.original.data),
            "after": digest(result.after),
            "diff": result.diff,
            "words": result.words,
            "spent": spent_object(ready),
        }
        write_json(terminal, content)
        return
    if change is None:
        terminal.diff(result.diff)
        if terminal.tells:
            terminal.note("--dry-run: nothing was written", "dim")
    else:
        added, removed = (
            sum(line.startswith(mark) and not line.startswith(mark * 3) for line in result.diff.split("\n"))
            for mark in "+-"
        )
        terminal.result(f"changed {place.name} (+{added} -{removed}); undo it with {undo_command(place)}\n")
    if ready is not None:
        report(terminal, ready)


LEAST_WORDS, MOST_WORDS = 20, 1_000


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
    repo = open_repository(session)
    settings, terminal = open_for_summaries(session, repo.layout, options)
    repo = repo._replace(settings=settings, terminal=terminal)
    stored = find(resolver(repo), options.name)
    todo = plan(repo.layout, stored, words=options.words, refresh=options.refresh, warn=repo.terminal.warn)
    if not todo.pieces:
        raise NothingDone(f"nothing to summarize: {stored.place.name} is empty")
    if todo.summary is not None and not todo.calls:
        _show_summary(repo, stored, todo.summary, None, as_json=options.as_json)
    else:
        _summarize(repo, stored, todo, options)


def _summarize(repo: Repository, stored: StoredConversation, todo: Plan, options: SimpleNamespace) -> None:
    from repoagent.cli.ui.progress import about, agree, ready_for, report
    from repoagent.llm.model import display_name
    from repoagent.memory.conversation_summary import estimated, summarize

    terminal, place = repo.terminal, stored.place
    waiting = terminal.working("asking the model")
    ready = ready_for(repo.settings, terminal, waiting, record=options.record, reply=options.reply)
    usage = estimated(todo, options.words)
    price = ready.meter.price_of(ready.model.spec)
    what = plural(todo.pieces[-1].last - todo.pieces[todo.known].first + 1, "turn")
    sentence = f"{display_name(ready.model.spec)} would summarize {what} "
    sentence += about(todo.calls, usage, None if price is None else price.of(usage))
    agree(terminal, sentence, few=options.yes or todo.calls <= FEW, less="name a shorter one")
    if ready.meter.book is not None:
        names = (place.about or place.name,)
        ready.meter.book = ready.meter.book.about("summarize", str(repo.worktree.top), names)
    with waiting as working:

        def show_part(number: int, of: int) -> None:
            working.label(f"summarizing {place.name}" + (f": part {number} of {of}" if of > 1 else ""))

        summary = summarize(
            repo.layout, stored, todo, ready.model, ready.meter,
            words=options.words, on_piece=show_part,
            on_wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
        )  # fmt: skip
    _show_summary(repo, stored, summary, ready, as_json=options.as_json)
    report(terminal, ready)


def _show_summary(
    repo: Repository, stored: StoredConversation, summary: Summary, ready: ModelSetup | None, *, as_json: bool
) -> None:
    from repoagent.cli.ui.output_style import Page
    from repoagent.memory.conversation_changes import digest

    terminal = repo.terminal
    if as_json:
        content = {
            "name": stored.place.name,
            "sha256": digest(stored.data),
            "turns": len(stored.conversation.turns),
            **summary_object(summary),
            "spent": spent_object(ready),
        }
        write_json(terminal, content)
        return
    page = Page.of(terminal, least=20, most=100)
    page.write(summary_lines(summary, page), terminal)
    if terminal.tells or terminal.verbose:
        state = "new" if ready else f"cached on {summary.date[:10]}"
        if summary.edited:
            state += ", corrected by you"
        file = "" if summary.place is None else f"; to correct it, edit {os.path.relpath(summary.place)}"
        terminal.note(f"{stored.place.name}: {state}{file}", "dim")
