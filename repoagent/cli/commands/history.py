"""`repoagent history`: who works on a file, and what each commit did to it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import max_cost_option, record_option
from repoagent.cli.session import Session, json_option, pass_session
from repoagent.cli.ui.sanitize import clean, display_width, one_line, paint, width
from repoagent.cli.ui.terminal import has_utf8
from repoagent.errors import RepoagentError, UsageError
from repoagent.history.commit_details import NAMES, did, lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repoagent.cli.ui.terminal import Terminal
    from repoagent.history.commit_details import Step
    from repoagent.history.file_history import Author, HistoryReport

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
    from repoagent.git.worktree import layout, open_worktree, relative
    from repoagent.history.file_history import read_history

    options = SimpleNamespace(**values)
    if options.budget is not None and options.as_json:
        raise UsageError("--budget cannot be combined with --json")
    worktree = open_worktree(Path.cwd())
    flags = {"model": options.model, "max_cost": options.max_cost}
    settings, terminal = session.open(layout(worktree), flags)
    if options.summarize and not options.model and (model := settings.text_or_none("summary.model")):
        settings, terminal = session.open(layout(worktree), {**flags, "model": model})
    path = relative(worktree, options.file, Path.cwd())
    found = read_history(worktree, path, revision=options.revision, limit=options.limit)
    asks = bool(options.model or options.summarize)
    share = options.share or settings.switch("summary.share")
    if not (asks or share or layout(worktree).summaries.is_dir()):
        _show(found, options, terminal)
        return
    from repoagent.cli.commands.history_summary import Summarizing

    work = Summarizing(worktree, settings, terminal, share=share, yes=options.yes, record=options.record)
    found = work.known(found, thorough=asks)
    paid: dict[str, object] | None = None
    if asks:
        try:
            found, paid = work.ask(found)
        except RepoagentError:
            if not options.as_json and work.outcome.summaries:
                _show(work.told(found), options, terminal)
            raise
        except KeyboardInterrupt:
            if count := len(work.outcome.summaries):
                terminal.note(f"interrupted; the summaries of {count} commit{'s' * (count > 1)} are saved")
            raise
        finally:
            work.shared()
    else:
        work.shared()
    _show(found, options, terminal, paid)


def _show(
    found: HistoryReport, options: SimpleNamespace, terminal: Terminal, paid: dict[str, object] | None = None
) -> None:
    if options.as_json:
        from repoagent.history.render import to_dict

        terminal.result(json.dumps({**to_dict(found), "asked": paid}, indent=2) + "\n")
    elif options.budget is not None:
        from repoagent.history.render import history_block

        partial = found.partial
        block = history_block(
            found.steps, partial=partial, limit=options.limit, people=found.people, budget=options.budget
        )
        terminal.result(block)
    else:
        show(found, terminal)


PIPE_WIDTH = 120  # columns, where there is no terminal to measure
LEAST, MOST = 60, 200
NARROW = 80
PERSONS = 8
AUTHOR = 22
BAR = 12
_ASCII = str.maketrans("█−…", "#-.")  # one column each, as they are


def show(past: HistoryReport, terminal: Terminal) -> None:
    """Print the history, with notes about what is missing on standard error."""
    wide = max(LEAST, min(MOST, terminal.width if terminal.shows else PIPE_WIDTH))
    lines = [*_people(past, wide, terminal.color), "", *_steps(past.steps, past.path, wide, terminal.color)]
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    terminal.styled(text if has_utf8(os.environ) else text.translate(_ASCII))
    for note in past.notes:
        terminal.note(note, "dim")
    left = past.people.commits - len(past.steps)
    if left > 0:
        terminal.note(f"{left:,} older commit{'s' * (left > 1)}; show more with --limit", "dim")


def fitted(text: str, room: int) -> str:
    """`text` made clean, on one line of at most `room` columns."""
    return _cut(clean(" ".join(text.split())), room)


def _path(path: str, room: int) -> str:
    """A path in at most `room` columns, with each of its spaces and line ends to be seen."""
    return _cut(one_line(path), room)


def _cut(line: str, room: int) -> str:
    if display_width(line) <= room:
        return line
    taken, kept = 0, []
    for character in line:
        taken += width(character, taken)
        if taken > room - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def _people(past: HistoryReport, wide: int, color: bool) -> list[str]:
    people = past.people
    whole = people.commits
    persons = people.persons[:PERSONS]
    plural = "s" * (whole != 1)
    head = f"{_path(past.path, wide - 30)}: {'the last ' * people.partial}{whole:,} commit{plural}"
    lines = [paint(head, "bold") if color else head, ""]
    names = [fitted(person.name, AUTHOR + 8) for person in persons]
    newest = max((person.last for person in people.persons), default="")
    two_years = f"{int(newest[:4]) - 2:04}{newest[4:]}" if newest[:4].isdecimal() else ""
    most = max((person.commits for person in persons), default=1)
    first = max([display_width(name) for name in names], default=0)
    digits = max([len(f"{person.commits:,}") for person in persons], default=0)
    for name, person in zip(names, persons, strict=True):
        bar = "█" * max(1, round(BAR * person.commits / most)) if wide >= LEAST + 20 else ""
        span = person.last if person.first == person.last else f"{person.first} to {person.last}"
        shown = bar + " " * (BAR - len(bar)) if bar else ""
        away = person.last < two_years
        who = _maybe(_padded(name, first), "dim", color and away)
        cells = [who, f"{person.commits:>{digits},}", span.ljust(24), _maybe(shown, "cyan", color)]
        lines.append("  ".join(cells))
    if rest := people.persons[PERSONS:]:
        said = f"and {len(rest)} more, with {sum(person.commits for person in rest):,} commits"
        lines.append(_maybe(fitted(said, wide), "dim", color))
    if people.bots:
        lines.append(_maybe(fitted(f"bots: {_counted(people.bots)}", wide), "dim", color))
    return lines


def _counted(persons: Sequence[Author]) -> str:
    return ", ".join(f"{person.name} {person.commits:,}" for person in persons)


def _steps(steps: Sequence[Step], path: str, wide: int, color: bool) -> list[str]:
    """Two lines for each commit; on a narrow terminal the author stands on the second."""
    narrow = wide < NARROW
    names = [fitted(step.commit.author, AUTHOR if wide >= 100 else 14) for step in steps]
    ids = max((len(step.commit.short) for step in steps), default=0)
    who = 0 if narrow else max(map(display_width, names), default=0) + 2
    counts = [lines_of(step.commit) for step in steps]
    last = max(map(display_width, counts), default=0)
    indent = 12 + ids + 2
    longest = max((display_width(fitted(step.commit.subject, wide)) for step in steps), default=0)
    room = min(wide - indent - who - (last + 2 if last else 0), max(longest, len("(no subject)")))
    lines = []
    for step, name, count in zip(steps, names, counts, strict=True):
        commit = step.commit
        if commit.path != path:
            path = commit.path
            lines.append(_maybe(f"as {_path(path, wide - 4)}:", "dim", color))
        day = _padded(fitted(commit.date[:10], 10), 10)
        short = _padded(fitted(commit.short, ids), ids)
        subject = fitted(commit.subject, room) or "(no subject)"
        cells = [day, _maybe(short, "yellow", color), *([] if narrow else [_padded(name, who - 2)])]
        lines.append("  ".join([*cells, _padded(subject, room), *([count.rjust(last)] if last else [])]))
        left = wide - indent - (display_width(name) + 2 if narrow else 0)
        what = _maybe(_what(step, left), "dim", color)
        if what or narrow:
            lines.append(" " * indent + (f"{name}  {what}" if narrow else what))
    return lines


def _what(step: Step, room: int) -> str:
    """What it did: with fewer names where the line is short."""
    if step.summary:
        return fitted(step.summary, room)
    for names in range(NAMES * 2, 0, -1):
        line = clean(did(step, names=names))
        if display_width(line) <= room:
            return line
    return fitted(line, room)


def _padded(text: str, room: int) -> str:
    return text + " " * (room - display_width(text))


def _maybe(text: str, style: str, color: bool) -> str:
    return paint(text, style) if color else text
