"""`repoagent conversation edit`: a model rewrites a conversation."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli import options as shared
from repoagent.cli.commands import model_calls
from repoagent.cli.commands.conversation import conversation_resolver, epilog, name_argument, undo_command
from repoagent.cli.session import (
    Repository,
    Session,
    json_option,
    open_repository,
    pass_session,
    select_fields,
)
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.edit.rewrite_conversation import RewriteRequest, RewriteResult

EDIT_EXAMPLES = epilog(
    'edit parser "shorten the long answers"',
    'edit file:src/app.py "leave logging out" --user-turns',
    more="\n\nExit codes 4 (no usable model) and 5 (a limit was reached) mean the same as for `edit`.",
)


@click.command(epilog=EDIT_EXAMPLES)
@name_argument
@click.argument("request", metavar="REQUEST", default="")
@click.option("--user-turns", is_flag=True, help="Allow your own turns to be changed or removed, too.")
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

    Your own turns do not change unless you use --user-turns. REQUEST may be - for standard input. `undo`
    undoes the change.
    """
    from repoagent.edit.rewrite_conversation import RewriteRequest, commit_rewrite, first_request
    from repoagent.memory.conversation_log import digest
    from repoagent.memory.conversations import find_conversation

    options = SimpleNamespace(**values)
    flags = {"model": options.model, "max_cost": options.max_cost}
    repo = open_repository(session, flags, as_json=options.as_json)
    terminal = repo.terminal
    stored = find_conversation(conversation_resolver(repo), options.name, own=True)
    text, name = options.request, stored.ref.name
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not text.strip():
        raise UsageError(
            f"missing REQUEST: describe what to change; to edit the conversation yourself, open {stored.ref.path}"
        )
    request = RewriteRequest(stored, text.strip(), options.user_turns)
    if options.show_prompt:
        from repoagent.cli.commands.context import show_request

        prompt = first_request(request, max_output_tokens=0)
        show_request(prompt, repo.settings, terminal, as_json=repo.as_json)
        return
    shared.require_answers(terminal, options, to="save the change")
    if repo.as_json and not (options.yes or options.dry_run):
        raise UsageError(
            "cannot ask for confirmation with --json; use --yes to save the change, or --dry-run to preview"
        )
    result, ready = _ask_model(options, repo, request)
    if not options.dry_run:
        if not options.yes:
            terminal.note("")
            terminal.diff(result.diff, aside=True)
            if result.words:
                terminal.note(f"\n{result.words}\n", "dim")
            choices = {"y": "write it", "n": "discard it"}
            if terminal.ask(f"Write this to {name}", choices) == "n":
                raise NothingDone("nothing was changed")
        commit_rewrite(repo.layout, result)
    lines = []
    if options.dry_run and not repo.as_json:
        terminal.diff(result.diff)
    elif not options.dry_run:
        _, _, hunks = result.diff.partition("\n@@")
        marks = [line[:1] for line in hunks.split("\n")]
        counts = f"+{marks.count('+')} -{marks.count('-')}"
        lines = [f"changed {name} ({counts}); undo it with {undo_command(stored.ref)}"]
    content = {
        "command": "edit",
        **select_fields(stored.ref, "name", "path"),
        "written": not options.dry_run,
        "before": digest(result.original.data),
        "after": digest(result.after),
        "diff": result.diff,
        "words": result.words,
        "spent": model_calls.spent_object(ready),
    }
    repo.emit(content, lines, notes=["--dry-run: nothing was written"] if options.dry_run else [])
    if not repo.as_json:
        model_calls.report(terminal, ready)


def _ask_model(
    options: SimpleNamespace, repo: Repository, request: RewriteRequest
) -> tuple[RewriteResult, ModelSetup]:
    from repoagent.edit.rewrite_conversation import rewrite_conversation
    from repoagent.llm.model import display_name
    from repoagent.llm.registry import provider_of

    terminal, ref = repo.terminal, request.original.ref
    ready = model_calls.ready_for(repo.settings, terminal, record=options.record, reply=options.reply)
    model_calls.charge(ready, "edit", repo.worktree.top, (ref.about or ref.name,))
    with terminal.working(f"asking {display_name(ready.model.spec)}") as working:
        if provider_of(ready.model.spec).answered_by == "user":  # the user writes the reply
            working.quiet()

        result = rewrite_conversation(
            repo.layout, request, ready,
            on_text=working.text if terminal.verbose else lambda piece: None,
            on_void=lambda text: working.note("(the reply was cut off and discarded)"),
            on_wait=model_calls.retrying(working),
        )  # fmt: skip
        return result, ready
