"""`repoagent activity`: the edits, undos, reviews and runs of this repository; `--cost`: what model calls cost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from repoagent.cli.session import Session, find_layout, json_option, pass_session, write_json
from repoagent.cli.ui.output_style import Page, plural
from repoagent.cli.ui.table import Column
from repoagent.cli.ui.terminal_text import clean, one_line
from repoagent.dataclass import dataclass
from repoagent.errors import Exit, NothingDone, UsageError
from repoagent.reports.activity import refusals, total, unapplied, was_applied
from repoagent.reports.activity_html import ended

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal
    from repoagent.git.worktree import WorkTree
    from repoagent.llm.usage import SpendEntry
    from repoagent.reports.activity import Activity, Event, Sum
    from repoagent.reports.activity_html import PageContext

COLUMNS = (
    Column("time"),
    Column("state"),
    Column("what", cut="end", least=20),
    Column("cost", right=True, dropped=1),
)


def _lines(activity: Activity, limit: int, page: Page) -> Iterator[str]:
    """The newest events as a table, the totals, and why edits were not applied."""

    newest = list(reversed(activity.events))[:limit]
    rows = [
        ((f"{event.time:%Y-%m-%d %H:%M}",), (ended(event), _style(event)), (_what(event),), (_cost(event),))
        for event in newest
    ]
    if rows:
        yield from page.table(COLUMNS, rows)
    if older := len(activity.events) - len(newest):
        yield page.paint(f"and {older:,} older; show more with --limit", "dim")
    if rows:
        yield ""
    whole = total(activity)
    counts = [
        f"{whole.applied:,} applied",
        *(f"{number:,} {state}" for state, number in unapplied(activity)),
        f"{whole.undone:,} undone",
        f"{whole.reviews:,} reviewed",
    ]
    if whole.runs:
        failed = sum(event.kind == "run" and event.state == "failed" for event in activity.events)
        counts.append(f"{plural(whole.runs, 'run')}{f' ({failed:,} failed)' if failed else ''}")
    yield from page.wrap(f"{', '.join(counts)}; {_spent(whole)}")
    if reasons := refusals(activity):
        text = ", ".join(f"{one_line(reason)} {count}" for reason, count in reasons[:6])
        yield from page.wrap(f"not applied: {text}", "", "", "dim")


def _spent(whole: Sum) -> str:
    """What models used: "2 calls, 812 tokens, $0.0123 and 1 of unknown price"."""
    calls = plural(whole.calls, "call")
    if whole.unpriced == whole.calls:
        return f"{calls}, {whole.tokens:,} tokens, price unknown" if whole.calls else "no model calls"
    beyond = f" and {whole.unpriced:,} of unknown price" if whole.unpriced else ""
    return f"{calls}, {whole.tokens:,} tokens, ${whole.cost:.4f}{beyond}"


def _what(event: Event) -> str:
    files = ", ".join(event.files[:2]) + (f" and {len(event.files) - 2} more" if len(event.files) > 2 else "")
    parts = [part for part in (event.what, f"({files})" if files and event.what else files) if part]
    return one_line(" ".join(parts)) or event.id


def _cost(event: Event) -> str:
    from repoagent.llm.usage import cost_text

    return cost_text(event.cost) if event.cost is not None and event.tokens else ""


def _style(event: Event) -> str:
    if event.kind == "edit" and event.state != "answered":
        return "green" if was_applied(event) else "yellow"
    return "blue" if event.kind == "undo" else "cyan"


_AGO = re.compile(r"([0-9]{1,4})d")
BY: dict[str, Callable[[SpendEntry], Iterable[str]]] = {
    "day": lambda spent: [spent.time[:10]],
    "model": lambda spent: [spent.model],
    "repository": lambda spent: [spent.repository],
    "run": lambda spent: [spent.run or "models test"],
    "file": lambda spent: [f"{spent.repository}/{file}" for file in spent.files],
    "call": lambda spent: [spent.time],
}


@dataclass
class _Sum:
    """Totals. `cost` (US dollars) lacks the `unpriced` calls."""

    calls: int = 0
    sent: int = 0
    written: int = 0
    cost: float = 0.0
    unpriced: int = 0
    estimated: bool = False

    def add(self, spent: SpendEntry, share: float) -> None:
        self.calls += 1
        self.sent += round((spent.usage.total - spent.usage.output) * share)
        self.written += round(spent.usage.output * share)
        self.cost += (spent.cost or 0.0) * share
        self.unpriced += spent.cost is None
        self.estimated |= spent.usage.estimated


def show_cost(session: Session, *, by: str, since: str, here: bool, as_json: bool) -> None:
    """Print a line per `by`: model calls, failed ones included, with tokens and cost. A call about several files is
    divided among them."""
    from repoagent.git.worktree import open_worktree
    from repoagent.llm.usage import read, state_folder
    from repoagent.reports.activity import work_trees

    settings, terminal = session.open(find_layout())
    only = work_trees(open_worktree(Path.cwd()))[0] if here else None
    folder = state_folder()
    sums: dict[str, _Sum] = {}
    for spent in read(folder, first_day(since)):
        names = list(BY[by](spent))
        for name in names if only is None or spent.repository in only else []:
            sums.setdefault(name, _Sum()).add(spent, 1 / len(names))
    if by in ("model", "repository", "file"):  # the most expensive first; the others by time
        sums = dict(sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].sent)))
    limit = settings.number_or_none("max_cost_per_day")
    if as_json:
        rows = [{by: name, **_as_object(total)} for name, total in sums.items()]
        write_json(terminal, {"folder": str(folder), "max_cost_per_day": limit, "rows": rows})
        return
    if not sums:
        raise NothingDone(f"no model calls{'' if since == 'ever' else ' since ' + since} in {folder}")
    texts = [(clean(_shown(name)), *_cells(total)) for name, total in sums.items()]
    if len(texts) > 1:
        texts.append(("total", *_cells(_all(sums.values()))))
    numbers = (Column(head, right=True) for head in ("calls", "tokens in", "out", "cost"))
    heads = (Column(by, cut="middle", least=12), *numbers)
    cells = [[(cell,) for cell in row] for row in texts]
    page = Page.of(terminal)
    page.write(page.table(heads, cells), terminal)
    if any(total.unpriced for total in sums.values()):
        terminal.note("the price of some calls is unknown; see `repoagent models`", "dim")
    if any(total.estimated for total in sums.values()):
        terminal.note("~ includes estimated tokens, which the provider did not count", "dim")
    if limit is not None:
        from repoagent.llm.usage import dollars

        terminal.note(f"max_cost_per_day is {dollars(limit, 0)}", "dim")


def first_day(since: str) -> date | None:
    today = date.today()
    if since == "ever":
        return None
    if since == "today":
        return today
    if match := _AGO.fullmatch(since):
        return today - timedelta(days=int(match[1]))
    try:
        return date.fromisoformat(since)
    except ValueError:
        raise UsageError(f"--since {since}: use 2026-11-30, today, 7d or ever") from None


def _cells(total: _Sum) -> tuple[str, str, str, str]:
    about = "~" if total.estimated else ""
    known = f"${total.cost:.4f}{'+' if total.unpriced else ''}"
    return (
        f"{total.calls:,}",
        f"{about}{total.sent:,}",
        f"{about}{total.written:,}",
        "?" if total.unpriced == total.calls else known,
    )


def _all(sums: Iterable[_Sum]) -> _Sum:
    whole = _Sum()
    for one in sums:
        whole.calls += one.calls
        whole.sent += one.sent
        whole.written += one.written
        whole.cost += one.cost
        whole.unpriced += one.unpriced
        whole.estimated |= one.estimated
    return whole


def _shown(name: str) -> str:
    """A path with the home directory as ~."""
    home = f"{Path.home()}/"
    return f"~/{name.removeprefix(home)}" if name.startswith(home) else name


def _as_object(total: _Sum) -> dict[str, object]:
    return {
        "calls": total.calls,
        "input": total.sent,
        "output": total.written,
        "cost": round(total.cost, 6),
        "calls_without_price": total.unpriced,
        "estimated": total.estimated,
    }


_LIMIT = 20  # lines
_AROUND = 6  # most active files, with their neighborhoods
_NEIGHBORS = 4  # files of each

EXAMPLES = """\b
Examples:
  repoagent activity
  repoagent activity --since 7d --html week.html
  repoagent activity --since ever --json | jq '.days'
  repoagent activity --cost --by model --since 7d

The exit code is 1 if there is nothing to show."""


@click.command(epilog=EXAMPLES)
@click.option(
    "--since",
    metavar="DAY",
    default="30d",
    show_default=True,
    help="Start at DAY: YYYY-MM-DD, today, Nd or ever.",
)
@click.option("-n", "--limit", type=int, metavar="N", help="Show at most N lines.  [default: 20]")
@click.option(
    "--html", "html", metavar="FILE", help="Write a web page with charts to FILE; - is standard output."
)
@click.option("--cost", is_flag=True, help="Show the cost of model calls in all your repositories.")
@click.option(
    "--by",
    type=click.Choice(list(BY)),
    metavar="WHAT",
    help="With --cost: total by day (the default), model, repository, run, file or call.",
)
@click.option("--here", is_flag=True, help="With --cost: count only this repository and its work trees.")
@json_option
@pass_session
def command(
    session: Session,
    /,
    *,
    since: str,
    limit: int | None,
    html: str | None,
    cost: bool,
    by: str | None,
    here: bool,
    as_json: bool,
) -> int:
    """Show the edits, undos, reviews and runs of this repository, and what models cost.

    It reads the files in .repoagent/ and your own log of model calls, and sends nothing. --cost includes failed calls,
    and divides a call about several files among them.
    """
    if (by or here) and not cost:
        raise UsageError("--by and --here need --cost")
    if cost:
        if html is not None or limit is not None:
            raise UsageError("--cost cannot be combined with --html or --limit")
        show_cost(session, by=by or "day", since=since, here=here, as_json=as_json)
        return Exit.DONE
    limit = _LIMIT if limit is None else limit
    if limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    if html is not None and as_json:
        raise UsageError("--json cannot be combined with --html")
    from repoagent.git.worktree import open_worktree
    from repoagent.reports.activity import gather

    cwd = Path.cwd()
    worktree = open_worktree(cwd)
    terminal = session.terminal()
    activity = gather(worktree, since=first_day(since), warn=terminal.warn)
    words = (
        "from the beginning"
        if since == "ever"
        else f"since {since if since[-1:] != 'd' else first_day(since)}"
    )
    if html is not None:
        from repoagent.reports.activity_html import page as html_page

        _write(terminal, html_page(activity, words, _around(worktree, activity)), html, cwd)
    elif as_json:
        write_json(terminal, _activity_object(activity))
    elif activity.events or activity.spent:
        page = Page.of(terminal)
        page.write(_lines(activity, limit, page), terminal)
    else:
        terminal.note(f"no activity here {words}")
    return Exit.DONE if activity.events or activity.spent else Exit.NOTHING


def _around(worktree: WorkTree, activity: Activity) -> list[PageContext]:
    """The neighborhoods of the most active files that still exist."""
    from repoagent.history.neighbors import neighborhood
    from repoagent.reports.activity import by_file
    from repoagent.reports.activity_html import PageContext

    contexts = []
    active = [file.name for file in by_file(activity) if file.applied + file.refused + file.undone]
    for path in [path for path in active if _is_file(worktree.top / path)][:_AROUND]:
        rows = neighborhood(worktree, [path], limit=_NEIGHBORS).rows
        near = tuple(
            (os.fsdecode(row.path), f"{row.together} of {row.commits}" if row.together else "")
            for row in rows
        )
        contexts.append(PageContext(path, near))
    return contexts


def _is_file(path: Path) -> bool:
    """Whether the file exists; a recorded name may be an invalid one."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _write(terminal: Terminal, text: str, target: str, cwd: Path) -> None:
    if target == "-":
        terminal.result(text)
        return
    from repoagent.cli.ui.terminal import write_to

    write_to(cwd / target, text.encode("utf-8"), "--html", private=True)
    terminal.note(f"written to {target}")


def _activity_object(activity: Activity) -> dict[str, object]:
    from dataclasses import asdict

    from repoagent.reports.activity import by_day, by_file, by_model

    return {
        "events": [
            {**asdict(event), "time": event.time.isoformat(timespec="seconds")} for event in activity.events
        ],
        "days": [asdict(day) for day in by_day(activity)],
        "models": [asdict(model) for model in by_model(activity)],
        "files": [asdict(file) for file in by_file(activity)],
        "refused": [{"reason": reason, "edits": count} for reason, count in refusals(activity)],
    }
