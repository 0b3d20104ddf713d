"""`repoagent conversation edit` and `summarize`: rewrite a conversation, or summarize it with a model."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import options as shared
from repoagent.cli.commands import summaries
from repoagent.cli.commands.conversation import GROUP, examples, name_argument, resolver, undo_command
from repoagent.cli.session import Repository, Session, json_option, open_repository, pass_session, select
from repoagent.cli.ui.table import Page, plural
from repoagent.errors import NothingDone, Refused, UsageError

if TYPE_CHECKING:
    from repoagent.edit.conversation_edit import RewriteRequest, RewriteResult
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.memory.conversation_summary import Plan
    from repoagent.memory.conversations import StoredConversation
    from repoagent.memory.file_summary_store import Summary

CODES = "\n\nExit codes 4 and 5 are those of an edit: no usable model, or a limit."
EDIT_EXAMPLES = examples(
    'edit parser "shorten the long answers"',
    'edit file:src/app.py "leave logging out" --user-turns',
    "edit parser          in your editor",
    more=CODES,
)


@click.command(epilog=EDIT_EXAMPLES)
@name_argument
@click.argument("request", metavar="[REQUEST]", required=False)
@click.option("--user-turns", is_flag=True, help="Also change or remove your own turns.")
@click.option("-y", "--yes", is_flag=True, help="Save without asking.")
@click.option("-n", "--dry-run", is_flag=True, help="Show the diff; write nothing.")
@shared.model_option
@shared.max_cost_option
@shared.record_option
@shared.reply_option
@shared.show_prompt_option
@json_option
@pass_session
def edit_command(session: Session, /, **values: Any) -> None:
    """Rewrite NAME as REQUEST describes: a model writes a diff, which is checked, shown and applied.

    Your own turns do not change unless you use --user-turns. REQUEST may be - for standard input; without a REQUEST
    your editor opens. `undo` undoes the change.
    """
    from repoagent.edit.conversation_edit import RewriteRequest, commit_rewrite, first_request
    from repoagent.memory.conversation_changes import digest
    from repoagent.memory.conversations import find

    options = SimpleNamespace(**values)
    flags = {"model": options.model, "max_cost": options.max_cost}
    repo = open_repository(session, flags, as_json=options.as_json)
    terminal = repo.terminal
    stored = find(resolver(repo), options.name, own=True)
    text, name = options.request, stored.place.name
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if text is not None and not text.strip():
        raise UsageError("the request is empty")
    if text is None and (options.show_prompt or not terminal.can_ask):
        raise UsageError(f'no request for {name}: use {GROUP} edit NAME "REQUEST"')
    request = RewriteRequest(stored, (text or "").strip(), options.user_turns)
    if options.show_prompt:
        from repoagent.cli.commands.context import show_request

        prompt = first_request(request, max_output_tokens=0)
        show_request(prompt, repo.settings, terminal, as_json=repo.as_json)
        return
    shared.require_answers(terminal, options, to="write it")
    result, ready = _ask_model(options, repo, request) if text else (_open_editor(repo, stored), None)
    if not options.dry_run:
        if not options.yes:
            terminal.note("")
            terminal.diff(result.diff, aside=True)
            if result.words:
                terminal.note(f"\n{result.words}\n", "dim")
            choices = ("write it", "discard it")
            question = f"Write this to {name}"
            repo.confirm(question, choices, refusal="use --yes", declined="nothing was changed")
        commit_rewrite(repo.layout, result)
    lines = []
    if options.dry_run and not repo.as_json:
        terminal.diff(result.diff)
    elif not options.dry_run:
        added, removed = (
            sum(line.startswith(mark) and not line.startswith(mark * 3) for line in result.diff.split("\n"))
            for mark in "+-"
        )
        lines = [f"changed {name} (+{added} -{removed}); undo it with {undo_command(stored.place)}"]
    content = {
        "command": "edit",
        **select(stored.place, "name", "path"),
        "written": not options.dry_run,
        "before": digest(result.original.data),
        "after": digest(result.after),
        "diff": result.diff,
        "words": result.words,
        "spent": summaries.spent_object(ready),
    }
    repo.emit(content, lines, notes=["--dry-run: nothing was written"] if options.dry_run else [])
    if ready is not None and not repo.as_json:
        summaries.report(terminal, ready)


def _ask_model(
    options: SimpleNamespace, repo: Repository, request: RewriteRequest
) -> tuple[RewriteResult, ModelSetup]:
    from repoagent.edit.conversation_edit import rewrite
    from repoagent.llm.model import display_name
    from repoagent.llm.registry import provider_of

    terminal, ref = repo.terminal, request.original.place
    ready = summaries.ready_for(repo.settings, terminal, record=options.record, reply=options.reply)
    summaries.charge(ready, "edit", repo.worktree.top, (ref.about or ref.name,))
    with terminal.working(f"asking {display_name(ready.model.spec)}") as working:
        if provider_of(ready.model.spec).answered_by == "user":  # the user writes the reply
            working.quiet()

        def ask_again(why: str) -> None:
            if terminal.error_tty or terminal.verbose:
                lines = [line for line in why.split("\n") if line.strip()]
                working.note(f"not accepted: {lines[-1] if len(lines) > 1 else why}", "dim")
                working.label("asking again")

        result = rewrite(
            repo.layout, request, ready,
            on_text=working.text if terminal.verbose else lambda piece: None,
            on_void=lambda text: working.note("(the reply was cut off and discarded)"),
            on_wait=summaries.retrying(working), on_again=ask_again,
        )  # fmt: skip
        return result, ready


def _open_editor(repo: Repository, stored: StoredConversation) -> RewriteResult:
    from repoagent.edit.conversation_edit import rewrite_in_editor

    text = stored.text
    while True:
        text = repo.terminal.edit_text(text, ".md") or ""
        if not text:
            raise NothingDone(f"the editor saved an empty file; {stored.place.name} was not changed")
        try:
            return rewrite_in_editor(stored, text)
        except Refused as error:
            repo.terminal.note(str(error))
            choices = {"y": "open it again", "n": "discard your changes"}
            if repo.terminal.ask("Continue editing", choices) == "n":
                raise


@click.command(epilog=examples("summarize money", "summarize file:src/app.py --words 60", more=CODES))
@name_argument
@click.option(
    "--words", type=click.IntRange(20, 1_000), metavar="N", default=150, show_default=True,
    help="The length of the summary, roughly.",
)  # fmt: skip
@shared.model_option
@click.option("--refresh", is_flag=True, help="Summarize again, but keep summaries that you corrected.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many model calls.")
@shared.max_cost_option
@shared.record_option
@shared.reply_option
@json_option
@pass_session
def summarize_command(session: Session, /, **values: Any) -> None:
    """Summarize NAME: goals, decisions, failed attempts and open questions.

    The summary is cached by the hash of the text, so you pay for the same text only once.
    """
    from repoagent.memory.conversation_changes import digest
    from repoagent.memory.conversation_summary import plan
    from repoagent.memory.conversations import find

    options = SimpleNamespace(**values)
    repo = summaries.with_model(open_repository(session, as_json=options.as_json), session, options)
    terminal = repo.terminal
    stored = find(resolver(repo), options.name)
    todo = plan(repo.layout, stored, words=options.words, refresh=options.refresh, warn=terminal.warn)
    if not todo.pieces:
        raise NothingDone(f"nothing to summarize: {stored.place.name} is empty")
    summary, ready = todo.summary, None
    if summary is None or todo.calls:
        summary, ready = _summarize(repo, stored, todo, options)
    content = {
        "name": stored.place.name,
        "sha256": digest(stored.data),
        "turns": len(stored.conversation.turns),
        **summaries.summary_object(summary),
        "spent": summaries.spent_object(ready),
    }
    state = "new" if ready else f"cached on {summary.date[:10]}"
    state += ", corrected by you" if summary.edited else ""
    notes = [f"{stored.place.name}: {state}{summaries.correction(summary)}"]
    lines = summaries.summary_lines(summary, Page.of(terminal, least=20, most=100))
    repo.emit(content, lines, notes=notes if terminal.error_tty or terminal.verbose else [])
    if ready is not None:
        summaries.report(terminal, ready)


def _summarize(
    repo: Repository, stored: StoredConversation, todo: Plan, options: SimpleNamespace
) -> tuple[Summary, ModelSetup]:
    from repoagent.memory.conversation_summary import estimated, summarize

    terminal, ref = repo.terminal, stored.place
    ready = summaries.ready_for(repo.settings, terminal, record=options.record, reply=options.reply)
    usage, price = estimated(todo, options.words), ready.meter.price_of(ready.model.spec)
    turns = plural(todo.pieces[-1].last - todo.pieces[todo.known].first + 1, "turn")
    estimate = (todo.calls, usage, None if price is None else price.of(usage))
    few = options.yes or todo.calls <= summaries.FEW
    summaries.confirm_calls(terminal, ready, turns, estimate, few=few, less="name a shorter conversation")
    summaries.charge(ready, "summarize", repo.worktree.top, (ref.about or ref.name,))
    with terminal.working(f"summarizing {ref.name}") as working:

        def show_part(number: int, of: int) -> None:
            if of > 1:
                working.label(f"summarizing {ref.name}: part {number} of {of}")

        summary = summarize(
            repo.layout, stored, todo, ready.model, ready.meter,
            words=options.words, on_piece=show_part, on_wait=summaries.retrying(working),
        )  # fmt: skip
    return summary, ready
