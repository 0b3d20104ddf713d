"""`repoagent history`: who works on a file, and what each commit did to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import max_cost_option, record_option
from repoagent.cli.repository import Repository, open_repository
from repoagent.cli.session import Session, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Cell, Column
from repoagent.cli.ui.terminal_text import clean, display_width, one_line
from repoagent.dataclass import dataclass
from repoagent.errors import Busy, ModelError, RepoagentError, UsageError
from repoagent.git.process import GitError
from repoagent.history.commit_details import NAMES, did, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.history.commit_details import Step
    from repoagent.history.commit_summaries import KnownSummaries, Outcome
    from repoagent.history.file_history import HistoryReport
    from repoagent.history.summary_store import Summary

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
@click.option("--model", metavar="SPEC", help="Summarize the commits that have no summary, with this model.")
@click.option("--summarize", is_flag=True, help="Summarize them, with the configured model.")
@click.option("--share", is_flag=True, help="Read summaries from git notes, and add new ones there.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before summarizing many commits.")
@max_cost_option
@record_option
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="TOKENS",
    help="Print the history as prompts show it, in at most this many tokens.",
)
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> None:
    """Show who works on FILE and what each commit did to it: changed definitions, lines, moves.

    FILE may be a directory. A model is asked only with --model or --summarize; its summary of a commit is saved and
    never paid for again.
    """
    from repoagent.history.file_history import read_history

    options = SimpleNamespace(**values)
    if options.budget is not None and options.as_json:
        raise UsageError("--budget cannot be combined with --json")
    repo = open_repository(session, {"model": options.model, "max_cost": options.max_cost})
    if options.summarize:
        from repoagent.cli.commands.summaries import open_for_summaries

        settings, terminal = open_for_summaries(session, repo.layout, options)
        repo = repo._replace(settings=settings, terminal=terminal)
    history = read_history(
        repo.worktree, repo.relative(options.file), revision=options.revision, limit=options.limit
    )
    asks = bool(options.model or options.summarize)
    share = options.share or repo.settings.switch("summary.share")
    if not (asks or share or repo.layout.summaries.is_dir()):
        _show(history, options, repo.terminal)
        return
    from repoagent.history.commit_summaries import KnownSummaries, Outcome

    work = _Summaries(repo, share, options, KnownSummaries({}, {}, {}), Outcome())
    history = work.add_known(history, thorough=asks)
    paid: dict[str, object] | None = None
    try:
        if asks:
            history, paid = work.ask(history)
    except RepoagentError:
        if not options.as_json and work.outcome.summaries:
            _show(work.added_to(history), options, repo.terminal)
        raise
    except KeyboardInterrupt:
        if count := len(work.outcome.summaries):
            repo.terminal.note(f"interrupted; the summaries of {plural(count, 'commit')} are saved")
        raise
    finally:
        work.write_notes()
    _show(history, options, repo.terminal, paid)


def _show(
    history: HistoryReport,
    options: SimpleNamespace,
    terminal: Terminal,
    paid: dict[str, object] | None = None,
) -> None:
    if options.as_json:
        from repoagent.history.render import to_dict

        write_json(terminal, {**to_dict(history), "spent": paid})
    elif options.budget is not None:
        from repoagent.history.render import history_block

        block = history_block(
            history.steps,
            partial=history.partial,
            limit=options.limit,
            people=history.people,
            budget=options.budget,
        )
        terminal.result(block)
    else:
        page = Page.of(terminal, least=_LEAST, most=200)
        if page.width is None:
            page = page._replace(width=120)
        page.write([*_people(history, page), "", *_steps(history, page)], terminal)
        for note in history.notes:
            terminal.note(note, "dim")
        older = history.people.commits - len(history.steps)
        if older > 0:
            terminal.note(f"{plural(older, 'older commit')}; show more with --limit", "dim")


_LEAST, _NARROW = 60, 80  # columns
_PERSONS = 8  # that are named
_BAR = 12
_PEOPLE = (Column(""), Column("", right=True), Column(""), Column("", dropped=1))


def _fitted(text: str, page: Page, room: int) -> str:
    return page.cut(clean(" ".join(text.split())), room)


def _people(history: HistoryReport, page: Page) -> Iterator[str]:
    people, wide = history.people, page.width or 0
    path = page.cut(one_line(history.path), wide - 30)
    yield page.paint(f"{path}: {'the last ' * people.partial}{plural(people.commits, 'commit')}", "bold")
    yield ""
    newest = max((person.last for person in people.persons), default="")
    two_years_ago = f"{int(newest[:4]) - 2:04}{newest[4:]}" if newest[:4].isdecimal() else ""
    most = max((person.commits for person in people.persons), default=1)
    rows: list[tuple[Cell, ...]] = []
    for person in people.persons[:_PERSONS]:
        bar = ("#" if page.ascii else "█") * max(1, round(_BAR * person.commits / most))
        span = person.last if person.first == person.last else f"{person.first} to {person.last}"
        name = (_fitted(person.name, page, 30), *(["dim"] if person.last < two_years_ago else []))
        rows.append((name, (f"{person.commits:,}",), (span,), (bar, "cyan")))
    yield from [*page.table(_PEOPLE, rows)][1:] if rows else []
    if rest := people.persons[_PERSONS:]:
        commits = sum(person.commits for person in rest)
        yield page.paint(f"and {len(rest)} more, with {commits:,} commits", "dim")
    if people.bots:
        bots = ", ".join(f"{person.name} {person.commits:,}" for person in people.bots)
        yield page.paint(_fitted(f"bots: {bots}", page, wide), "dim")


def _steps(history: HistoryReport, page: Page) -> Iterator[str]:
    """Two lines for each commit; on a narrow page the author is on the second."""
    wide, path = page.width or 0, history.path
    narrow = wide < _NARROW
    commits = [step.commit for step in history.steps]
    names = [_fitted(commit.author, page, 22 if wide >= 100 else 14) for commit in commits]
    subjects = [_fitted(commit.subject, page, wide) or "(no subject)" for commit in commits]
    minus = "-" if page.ascii else "−"
    counts = [lines_of(commit).replace("−", minus) for commit in commits]
    ids = max((len(commit.short) for commit in commits), default=0)
    name_columns = 0 if narrow else max(map(display_width, names), default=0) + 2
    count_columns = max(map(display_width, counts), default=0)
    indent = 12 + ids + 2
    room = wide - indent - name_columns - (count_columns + 2 if count_columns else 0)
    room = min(room, max([len("(no subject)"), *map(display_width, subjects)]))
    for step, name, subject, count in zip(history.steps, names, subjects, counts, strict=True):
        commit = step.commit
        if commit.path != path:
            path = commit.path
            yield page.paint(f"as {page.cut(one_line(path), wide - 4)}:", "dim")
        cells = [_padded(_fitted(commit.date[:10], page, 10), 10)]
        cells.append(page.paint(_padded(_fitted(commit.short, page, ids), ids), "yellow"))
        cells += [] if narrow else [_padded(name, name_columns - 2)]
        cells += [_padded(page.cut(subject, room), room), count.rjust(count_columns)]
        yield "  ".join(cells).rstrip()
        rest = wide - indent - (display_width(name) + 2 if narrow else 0)
        what = page.paint(_what(step, page, rest), "dim")
        if what or narrow:
            yield (" " * indent + (f"{name}  {what}" if narrow else what)).rstrip()


def _what(step: Step, page: Page, room: int) -> str:
    """What it did: with fewer names where the line is short."""
    if step.summary:
        return _fitted(step.summary, page, room)
    lines = (clean(did(step, names=names)) for names in range(NAMES * 2, 0, -1))
    fitting = next((line for line in lines if display_width(line) <= room), None)
    return fitting if fitting is not None else _fitted(did(step, names=1), page, room)


def _padded(text: str, room: int) -> str:
    return text + " " * (room - display_width(text))


_FEW = 5  # commits that need no confirmation


@dataclass
class _Summaries:
    """The summaries of one command: those that are saved, and new ones. `share`: read and write git notes."""

    repo: Repository
    share: bool
    options: SimpleNamespace
    saved: KnownSummaries
    outcome: Outcome

    def add_known(self, history: HistoryReport, *, thorough: bool) -> HistoryReport:
        """`history` with the summaries that are saved or in the notes."""
        from repoagent.history.commit_summaries import find_known
        from repoagent.history.summary_store import merge_fetched

        repo, top = self.repo, self.repo.worktree.top
        if self.share:
            try:
                for ref in merge_fetched(top):
                    repo.terminal.note(f"merged the notes of {ref}", "dim")
            except GitError as error:
                repo.terminal.warn(f"could not merge the fetched notes: {error}")
        self.saved = find_known(
            top, repo.layout, history.steps, share=self.share, thorough=thorough, warn=repo.terminal.warn
        )
        return self.added_to(history)

    def added_to(self, history: HistoryReport) -> HistoryReport:
        """`history` with all summaries so far."""
        from repoagent.history.summary_store import add_summaries

        return replace(history, steps=add_summaries(history.steps, self._all()))

    def ask(self, history: HistoryReport) -> tuple[HistoryReport, dict[str, object] | None]:
        """`history` with the missing summaries written by the model, and what that cost (None: none was missing).

        Raises UsageError if the cost cannot be confirmed, NothingDone if it is declined, and what the model and the
        limits raise.
        """
        from repoagent.cli.commands.summaries import spent_object
        from repoagent.cli.ui.progress import about, agree, ready_for
        from repoagent.edit.guards.off_limits import gate
        from repoagent.history.commit_summaries import plan, summarize
        from repoagent.llm.model import display_name

        if all(step.commit.commit in self.saved.summaries for step in history.steps):
            return history, None
        repo, terminal, top = self.repo, self.repo.terminal, self.repo.worktree.top
        waiting = terminal.working("asking the model")
        ready = ready_for(repo.settings, terminal, waiting, record=self.options.record)
        todo = plan(
            top, history.steps, self.saved,
            why_not=gate(top, [history.path]), context_tokens=ready.context_tokens,
            output_tokens=ready.max_output_tokens,
        )  # fmt: skip
        sentence = f"{display_name(ready.model.spec)} would summarize {todo.commits} commits "
        cost = todo.cost(ready.meter.price_of(ready.model.spec))
        sentence += about(len(todo.batches), todo.usage, cost)
        few = self.options.yes or todo.commits <= _FEW
        agree(terminal, sentence, few=few, less="use a lower --limit")
        if ready.meter.book is not None:
            ready.meter.book = ready.meter.book.about("history", str(top), (history.path,))
        with waiting as working:
            summarize(
                todo, ready.model, ready.meter, repo.layout,
                outcome=self.outcome,
                on_batch=lambda done, of: working.label(f"summarizing: {done} of {of} commits"),
                on_wait=lambda seconds, why: working.note(f"{why}; retrying in {seconds:.0f} s"),
            )  # fmt: skip
        self._report(todo.commits, ready)
        counts = {"summarized": len(self.outcome.summaries), "garbled": len(self.outcome.garbled)}
        return self.added_to(history), {**counts, **(spent_object(ready) or {})}

    def _report(self, commits: int, ready: ModelSetup) -> None:
        """Report the result. Raises ModelError if no summary is usable."""
        from repoagent.cli.ui.progress import report
        from repoagent.llm.model import display_name

        garbled = len(self.outcome.garbled)
        if garbled == commits:
            raise ModelError(f"{display_name(ready.model.spec)} wrote no usable summary; try another --model")
        if garbled:
            what = plural(garbled, "commit")
            self.repo.terminal.warn(f"dropped the missing or unusable summaries of {what}")
        report(self.repo.terminal, ready)

    def write_notes(self) -> None:
        """With `share`, add the summaries to the notes. A failure is a warning: they are saved here too."""
        from repoagent.history.summary_store import write_notes

        if not self.share:
            return
        terminal = self.repo.terminal
        try:
            count = write_notes(self.repo.worktree.top, self._all().values())
        except (GitError, UsageError, Busy) as error:
            terminal.warn(f"could not share the summaries, which are saved here: {error}")
            return
        if count:
            push = "git push REMOTE refs/notes/repoagent"
            terminal.note(f"updated {plural(count, 'note')}; share them with: {push}", "dim")

    def _all(self) -> dict[str, Summary]:
        return {**self.saved.summaries, **self.outcome.summaries}
