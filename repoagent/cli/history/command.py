"""`repoagent history`: who works on a file, and what each commit did to it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.program.model_options import max_cost_option, record_option
from repoagent.cli.program.session import Session, json_option, pass_session
from repoagent.errors import RepoagentError, UsageError

if TYPE_CHECKING:
    from repoagent.cli.screen.terminal import Terminal
    from repoagent.history import Past

EPILOG = """\b
Examples:
  repoagent history src/app.py
  repoagent history src/app.py --at v2.0 --limit 50
  repoagent history src/app.py --summarize --share
"""
file_path = click.Path(path_type=Path)


@click.command(epilog=EPILOG)
@click.argument("file", type=file_path)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=20,
    show_default=True,
    help="Show at most N commits.",
)
@click.option("--at", "revision", metavar="REV", default="HEAD", help="Start at REV instead of HEAD.")
@click.option("--model", metavar="SPEC", help="Let this model summarize the commits that have no summary.")
@click.option("--summarize", is_flag=True, help="Let the configured model summarize them.")
@click.option("--share", is_flag=True, help="Read summaries from git notes, and add new ones there.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many commits are summarized.")
@max_cost_option
@record_option
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Print the history as a prompt shows it, in so many tokens.",
)
@json_option
@pass_session
def command(session: Session, /, **options: Any) -> None:
    """Show who works on FILE and, step by step, what each commit did to it: definitions touched, lines, moves.

    FILE may be a directory. A model is only asked with --model or --summarize; its line for a commit is kept, and
    never paid for again.
    """
    from repoagent.history.past import past
    from repoagent.repo.worktree import layout, open_worktree, relative

    given = SimpleNamespace(**options)
    if given.budget is not None and given.as_json:
        raise UsageError("--budget prints a text: leave out --json")
    worktree = open_worktree(Path.cwd())
    flags = {"model": given.model, "max_cost": given.max_cost}
    settings, terminal = session.open(layout(worktree), flags)
    if given.summarize and not given.model and (model := settings.text_or_none("summary.model")):
        settings, terminal = session.open(layout(worktree), {**flags, "model": model})
    path = relative(worktree, given.file, Path.cwd())
    found = past(worktree, path, revision=given.revision, limit=given.limit)
    asks = bool(given.model or given.summarize)
    share = given.share or settings.switch("summary.share")
    if not (asks or share or layout(worktree).summaries.is_dir()):
        _show(found, given, terminal)
        return
    from repoagent.cli.history.summarizing import Summarizing

    work = Summarizing(worktree, settings, terminal, share=share, yes=given.yes, record=given.record)
    found = work.known(found, thorough=asks)
    paid: dict[str, object] | None = None
    if asks:
        try:
            found, paid = work.ask(found)
        except RepoagentError:
            if not given.as_json and work.outcome.summaries:
                _show(work.told(found), given, terminal)
            raise
        except KeyboardInterrupt:
            if count := len(work.outcome.summaries):
                terminal.note(f"stopped; what the model said of {count} commit{'s' * (count > 1)} is kept")
            raise
        finally:
            work.shared()
    else:
        work.shared()
    _show(found, given, terminal, paid)


def _show(
    found: Past, given: SimpleNamespace, terminal: Terminal, paid: dict[str, object] | None = None
) -> None:
    if given.as_json:
        from repoagent.history.block import to_dict

        terminal.result(json.dumps({**to_dict(found), "asked": paid}, indent=2) + "\n")
    elif given.budget is not None:
        from repoagent.history.block import history_block

        partial = found.partial
        block = history_block(
            found.steps, partial=partial, limit=given.limit, people=found.people, budget=given.budget
        )
        terminal.result(block)
    else:
        from repoagent.cli.history.table import show

        show(found, terminal)
