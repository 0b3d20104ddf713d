"""`repoagent history`: who works on a file, and what each commit did to it; `repoagent mine`: index the history."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.commands import model_calls
from repoagent.cli.options import max_cost_option, record_option, rows_option
from repoagent.cli.session import Repository, Session, json_option, open_repository, pass_session, write_json
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.display_text import one_line, plural, sanitize
from repoagent.errors import ModelError, RepoagentError
from repoagent.history.commit_details import describe_step, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from repoagent.history.commit_summaries import CommitSummary, SummaryOutcome
    from repoagent.history.file_history import HistoryReport

EPILOG = """\b
Examples:
  repoagent history src/app.py
  repoagent history src/app.py --at v2.0 --limit 50
  repoagent history src/app.py --summarize
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@rows_option("commits")
@click.option("--at", "revision", metavar="REV", default="HEAD", help="Start at REV instead of HEAD.")
@click.option("--model", metavar="SPEC", help="Use this model to summarize commits that have no summary.")
@click.option(
    "--summarize", is_flag=True, help="Use the configured model to summarize commits that have no summary."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before summarizing many commits.")
@max_cost_option
@record_option
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Show who works on FILE and what each commit did to it: changed definitions, lines, moves.

    FILE may be a folder. A model is used only with --model or --summarize; its summaries are saved, so you pay for
    each commit once.
    """
    from repoagent.history.commit_summaries import SummaryOutcome, add_summaries, read_summaries
    from repoagent.history.file_history import read_history
    from repoagent.history.render import to_dict

    options = SimpleNamespace(**values)
    repo = open_repository(session, {"model": options.model, "max_cost": options.max_cost})
    if options.summarize:
        settings, terminal = model_calls.open_for_summaries(session, repo.layout, options)
        repo = repo._replace(settings=settings, terminal=terminal)
    history = read_history(
        repo.worktree.top, repo.relative(options.file), revision=options.revision, limit=options.limit
    )
    terminal, outcome, known = repo.terminal, SummaryOutcome(), dict[str, Any]()
    if repo.layout.summaries.is_dir():
        known = read_summaries(repo.layout.summaries, history.steps, terminal.warn)

    def show(paid: dict[str, object] | None = None) -> None:
        shown = replace(history, steps=add_summaries(history.steps, {**known, **outcome.summaries}))
        if options.as_json:
            write_json(terminal, {**to_dict(shown), "spent": paid})
            return
        page = Page.of(terminal, least=_LEAST, most=200)
        page = page._replace(width=page.width or 120)
        page.write(_lines(shown, page), terminal)
        for note in shown.notes:
            terminal.note(note, "dim")
        older = shown.people.commits - len(shown.steps)
        if older > 0:
            terminal.note(f"{plural(older, 'older commit')}; show more with --limit", "dim")

    paid = None
    asks = options.model or options.summarize
    try:
        if asks and any(step.commit.commit not in known for step in history.steps):
            paid = _summarize(history, repo, options, known, outcome)
    except RepoagentError:
        if not options.as_json and outcome.summaries:
            show()
        raise
    except KeyboardInterrupt:
        if count := len(outcome.summaries):
            terminal.note(f"interrupted; the summaries of {plural(count, 'commit')} were saved")
        raise
    show(paid)


_LEAST = 60  # columns
_PERSONS = 8  # authors named
_BAR = 12
_PLAIN, _NUMBER = Column(""), Column("", right=True)
_PEOPLE = (_PLAIN, _NUMBER, _PLAIN, Column("", dropped=1))
_STEPS = (_PLAIN, _PLAIN, Column("", dropped=1), Column("", cut="end", least=20), _NUMBER)


def _fitted(text: str, page: Page, room: int) -> str:
    return page.cut(sanitize(" ".join(text.split())), room)


def _lines(history: HistoryReport, page: Page) -> Iterator[str]:
    """The authors; then a line for each commit and, if there is something to tell, one about what it did."""
    people, wide = history.people, page.width or 0
    path = page.cut(one_line(history.path), wide - 30)
    yield page.paint(f"{path}: {'the last ' * people.partial}{plural(people.commits, 'commit')}", "bold")
    yield ""
    newest = max((person.last for person in people.persons), default="")
    two_years_ago = f"{int(newest[:4]) - 2:04}{newest[4:]}" if newest[:4].isdecimal() else ""
    most = max((person.commits for person in people.persons), default=1)
    rows: list[tuple[Cell, ...]] = []
    for person in people.persons[:_PERSONS]:
        bar = "█" * max(1, round(_BAR * person.commits / most))
        span = person.last if person.first == person.last else f"{person.first} to {person.last}"
        name = (_fitted(person.name, page, 30), *(["dim"] if person.last < two_years_ago else []))
        rows.append((name, (f"{person.commits:,}",), (span,), (bar, "cyan")))
    yield from [*page.table(_PEOPLE, rows)][1:] if rows else []
    if rest := people.persons[_PERSONS:]:
        commits = sum(person.commits for person in rest)
        yield page.paint(f"and {plural(len(rest), 'more author')}, with {plural(commits, 'commit')}", "dim")
    if people.bots:
        bots = ", ".join(f"{person.name} {person.commits:,}" for person in people.bots)
        yield page.paint(_fitted(f"bots: {bots}", page, wide), "dim")
    yield ""
    path, rows = history.path, []
    indent = 14 + max((len(step.commit.short) for step in history.steps), default=0)
    below: dict[int, list[str]] = {-1: []}
    for number, step in enumerate(history.steps):
        commit = step.commit
        if commit.path != path:
            path = commit.path
            below[number - 1].append(page.paint(f"as {page.cut(one_line(path), wide - 4)}:", "dim"))
        author = _fitted(commit.author, page, 22 if wide >= 100 else 14)
        subject = _fitted(commit.subject, page, wide) or "(no subject)"
        date, short = _fitted(commit.date[:10], page, 10), _fitted(commit.short, page, indent)
        rows.append((date, (short, "yellow"), author, subject, lines_of(commit)))
        summary = step.summary or describe_step(step)
        summary = page.paint(_fitted(summary, page, wide - indent), "dim")
        below[number] = [" " * indent + summary] if summary else []
    yield from below.pop(-1)
    yield from [*page.table(_STEPS, rows, below)][1:] if rows else []


_FEW = 5  # commits that need no confirmation


def _summarize(
    history: HistoryReport,
    repo: Repository,
    options: SimpleNamespace,
    known: Mapping[str, CommitSummary],
    outcome: SummaryOutcome,
) -> dict[str, object]:
    """Have the model write the missing summaries into `outcome`; return the cost as JSON data.

    Raises UsageError if the cost cannot be confirmed, NothingDone if the user declines, ModelError if no summary is
    usable, and whatever the model and the limits raise."""
    from repoagent.edit.guards.off_limits import off_limits_gate
    from repoagent.history.commit_summaries import plan_summaries, summarize_commits
    from repoagent.llm.model import display_name

    terminal, top = repo.terminal, repo.worktree.top
    ready = model_calls.ready_for(repo.settings, terminal, record=options.record)
    todo = plan_summaries(
        top, history.steps, known,
        why_not=off_limits_gate(top, [history.path]), context_tokens=ready.context_tokens,
        output_tokens=ready.max_output_tokens,
    )  # fmt: skip
    estimate = (len(todo.batches), todo.usage, todo.cost(ready.meter.price_of(ready.model.spec)))
    few = options.yes or todo.commits <= _FEW
    objects = f"{todo.commits} commits"
    model_calls.confirm_calls(terminal, ready, objects, estimate, few=few, less="use a lower --limit")
    model_calls.charge(ready, "history", top, (history.path,))
    with terminal.working("asking the model") as working:
        summarize_commits(
            todo, ready.model, ready.meter, repo.layout,
            outcome=outcome,
            on_batch=lambda done, of: working.label(f"summarizing: {done} of {of} commits"),
            on_wait=model_calls.retrying(working),
        )  # fmt: skip
    garbled = len(outcome.garbled)
    if garbled == todo.commits:
        raise ModelError(f"{display_name(ready.model.spec)} wrote no usable summary; choose another model")
    if garbled:
        terminal.warn(f"the model wrote no usable summary for {plural(garbled, 'commit')}")
    model_calls.report(terminal, ready)
    return {
        "summarized": len(outcome.summaries),
        "garbled": garbled,
        **(model_calls.spent_object(ready) or {}),
    }


@click.command()
@click.option("--rebuild", is_flag=True, help="Discard the index and start over.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("--background", is_flag=True, hidden=True)
@json_option
@pass_session
def mine_command(
    session: Session, /, *, rebuild: bool, quiet: bool, background: bool, as_json: bool
) -> int | None:
    """Index the repository's history, newest commits first; later runs index only what is new.

    `repoagent neighbors` also does this, in small steps. You can interrupt it at any time and continue later. The index
    is .repoagent/history.db; you may delete it.
    """
    from repoagent.cli import Ended
    from repoagent.git.worktree import layout_of, open_worktree
    from repoagent.history.index.index import open_index

    if background:
        os.setsid()  # not ended by ^C or when the terminal is closed
        os.nice(10)
    worktree = open_worktree(Path.cwd())
    terminal = session.terminal()
    with open_index(worktree, warn=(lambda _: None) if quiet else terminal.warn) as index:
        index.resolve("HEAD")
        silent = quiet or as_json or not terminal.moves
        with nullcontext() if silent else terminal.working("mining") as working:

            def show_progress(done: int) -> None:
                if working is not None:
                    working.progress(f"mining: {done:,} commits")

            try:
                index.update(progress=show_progress, rebuild=rebuild, insist=True)
            except KeyboardInterrupt as error:
                if not (quiet or as_json or isinstance(error, Ended)):
                    count = plural(index.state().commits, "commit")
                    terminal.note(f"interrupted ({count} indexed); continue with `repoagent mine`")
                raise
        state = index.state()
    if as_json:
        content = {"path": layout_of(worktree).history, **state._asdict(), "complete": state.complete}
        write_json(terminal, content)
    elif not quiet:
        how = {
            "whole": "complete",
            "mining": "older commits to follow",
            "unreadable": "git could not read older commits",
        }[state.end]
        new = f", {state.new:,} new to index" if state.new else ""
        size = f"{state.size / 1e6:.1f} MB"
        terminal.result(f"{plural(state.commits, 'commit')} indexed, {how}{new} ({size})\n")
    return None
