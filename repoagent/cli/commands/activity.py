"""`repoagent activity`: the edits, undos, reviews and runs in this repository and, with --cost, what model calls
cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from repoagent.cli.options import number_option
from repoagent.cli.session import Session, find_layout, json_option, pass_session, select_fields, write_json
from repoagent.cli.ui.table import Cell, Column, Page
from repoagent.dataclass import dataclass
from repoagent.display_text import list_some, one_line, plural, sanitize
from repoagent.errors import Exit, NothingDone, UsageError
from repoagent.reports import activity as reports

if TYPE_CHECKING:
    from repoagent.llm.usage import SpendEntry
    from repoagent.reports.activity import Activity, Event

EXAMPLES = """\b
Examples:
  repoagent activity
  repoagent activity --since ever --json | jq '.events[].files'
  repoagent activity --cost --by model --since 7d

The exit code is 1 if there was no activity."""
BY = ("day", "model", "repository", "run")


@click.command(epilog=EXAMPLES)
@click.option(
    "--since", metavar="DAY", default="30d", show_default=True,
    help="Start at DAY: YYYY-MM-DD, today, Nd (N days ago) or ever.",
)  # fmt: skip
@number_option(
    "-n", "--limit", type=click.IntRange(1), metavar="N", help="Show at most N lines.  [default: 20]"
)
@click.option("--cost", is_flag=True, help="Show the cost of model calls in all your repositories.")
@click.option(
    "--by", type=click.Choice(BY), metavar="WHAT",
    help="With --cost: total by day (the default), model, repository or run.",
)  # fmt: skip
@click.option("--here", is_flag=True, help="With --cost: count only this repository and its work trees.")
@json_option
@pass_session
def command(session: Session, /, **values: Any) -> int:
    """Show the edits, undos, reviews and runs in this repository, and what models cost.

    activity reads the files in .repoagent/ and your own log of model calls, and sends nothing. --cost includes failed
    calls.
    """
    from repoagent.git.worktree import open_worktree

    options = SimpleNamespace(**values)
    since = options.since
    if (options.by or options.here) and not options.cost:
        raise UsageError("--by and --here need --cost")
    if options.cost:
        if options.limit is not None:
            raise UsageError("--cost cannot be combined with --limit")
        _show_cost(session, options)
        return Exit.DONE
    worktree, terminal = open_worktree(Path.cwd()), session.terminal()
    activity = reports.gather(worktree, since=_first_day(since), warn=terminal.warn)
    if options.as_json:
        events = [
            {**asdict(event), "time": event.time.isoformat(timespec="seconds")} for event in activity.events
        ]
        content = {
            "events": events,
            "refused": [{"reason": reason, "edits": edits} for reason, edits in reports.refusals(activity)],
        }
        write_json(terminal, content)
    elif activity.events or activity.spent:
        page = Page.of(terminal)
        page.write(_lines(activity, options.limit or 20, page), terminal)
    else:
        day = _first_day(since)
        terminal.note(f"no activity{f' since {day}' if day else ''}")
    return Exit.DONE if activity.events or activity.spent else Exit.NOTHING


def _first_day(since: str) -> date | None:
    today = date.today()
    if since == "ever":
        return None
    if since == "today":
        return today
    if re.fullmatch(r"[0-9]{1,4}d", since):
        return today - timedelta(days=int(since[:-1]))
    try:
        return date.fromisoformat(since)
    except ValueError:
        raise UsageError(f"--since {since}: use a date such as 2026-11-30, today, 7d or ever") from None


COLUMNS = (
    Column("time"),
    Column("state"),
    Column("what", cut="end", least=20),
    Column("cost", right=True, dropped=1),
)


def _lines(activity: Activity, limit: int, page: Page) -> Iterator[str]:
    from repoagent.llm.usage import cost_text

    newest = list(reversed(activity.events))[:limit]
    rows: list[tuple[Cell, ...]] = []
    for event in newest:
        files = list_some(event.files, 2)
        description = f"{event.what} ({files})" if event.what and files else event.what or files or event.id
        cost = cost_text(event.cost) if event.cost is not None and event.tokens else ""
        rows.append(((f"{event.time:%Y-%m-%d %H:%M}",), _state(event), (one_line(description),), (cost,)))
    if rows:
        yield from page.table(COLUMNS, rows)
    if older := len(activity.events) - len(newest):
        yield page.paint(f"and {plural(older, 'older event')}; show more with --limit", "dim")
    if rows:
        yield ""
    kinds = Counter(event.kind for event in activity.events)
    counts = [
        f"{sum(event.kind == 'edit' and reports.was_applied(event) for event in activity.events):,} applied"
    ]
    counts += [f"{number:,} {state}" for state, number in reports.unapplied(activity)]
    counts.append(f"{kinds['undo']:,} undone")
    if kinds["review"]:
        counts.append(f"{plural(kinds['review'], 'review')} with findings")
    if kinds["run"]:
        failed = sum(event.kind == "run" and event.state == "failed" for event in activity.events)
        counts.append(f"{plural(kinds['run'], 'run')}{f' ({failed:,} failed)' if failed else ''}")
    spent, total = "no model calls", _Sum()
    for call in activity.spent:
        total.add(call)
    if total.calls:
        unpriced = f" and {plural(total.unpriced, 'call')} of unknown price" if total.unpriced else ""
        price = f"${total.cost:.4f}" + unpriced
        price = "price unknown" if total.unpriced == total.calls else price
        spent = f"{plural(total.calls, 'call')}, {total.sent + total.written:,} tokens, {price}"
    yield from page.wrap(f"{', '.join(counts)}; {spent}")
    if reasons := reports.refusals(activity):
        text = ", ".join(f"{one_line(reason)} {count}" for reason, count in reasons[:6])
        yield from page.wrap(f"not applied: {text}", "dim")


def _state(event: Event) -> Cell:
    """The outcome and its color."""
    if event.kind == "review":
        return plural(event.findings, "finding"), "cyan"
    if event.kind == "run":
        return f"run {event.state}", "cyan"
    if event.kind != "edit":
        return ("undone", "blue") if event.kind == "undo" else ("redone", "cyan")
    if event.state == "answered":
        return event.state, "cyan"
    state = "applied" if event.state in ("undone", "redone") else event.state
    return state, "green" if reports.was_applied(event) else "yellow"


@dataclass
class _Sum:
    """Totals; `cost`, in US dollars, excludes the `unpriced` calls."""

    calls: int = 0
    sent: int = 0
    written: int = 0
    cost: float = 0.0
    unpriced: int = 0
    estimated: bool = False

    def add(self, entry: SpendEntry) -> None:
        usage = entry.usage
        self.calls += 1
        self.sent += usage.total - usage.output
        self.written += usage.output
        self.cost += entry.cost or 0.0
        self.unpriced += entry.cost is None
        self.estimated |= usage.estimated


def _show_cost(session: Session, options: SimpleNamespace) -> None:
    """Print calls, tokens and cost by day or by the value of --by."""
    from repoagent.git.worktree import open_worktree
    from repoagent.llm.usage import dollars, read_spend_log, state_folder

    by, day = options.by or "day", _first_day(options.since)
    settings, terminal = session.open(find_layout())
    only = reports.work_trees(open_worktree(Path.cwd()))[0] if options.here else None
    folder, whole = state_folder(), _Sum()
    sums: dict[str, _Sum] = {}
    for entry in read_spend_log(folder, day):
        if only is not None and entry.repository not in only:
            continue
        name = {
            "day": entry.time[:10],
            "model": entry.model,
            "repository": entry.repository,
            "run": entry.run or "models test",
        }[by]
        sums.setdefault(name, _Sum()).add(entry)
        whole.add(entry)
    if by in ("model", "repository"):  # the most expensive first; the others by time
        sums = dict(sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].sent)))
    limit = settings.number_or_none("max_cost_per_day")
    if options.as_json:
        names_of_sum = {"input": "sent", "output": "written", "calls_without_price": "unpriced"}
        rows = [
            {
                by: name,
                **select_fields(each, "calls", "estimated", **names_of_sum),
                "cost": round(each.cost, 6),
            }
            for name, each in sums.items()
        ]
        write_json(terminal, {"folder": folder, "max_cost_per_day": limit, "rows": rows})
        return
    if not sums:
        raise NothingDone(f"no model calls{f' since {day}' if day else ''} are logged in {folder}")
    cells = []
    for name, each in {**sums, **({"total": whole} if len(sums) > 1 else {})}.items():
        about = "~" if each.estimated else ""
        price = f"${each.cost:.4f}{'+' if each.unpriced else ''}" if each.unpriced < each.calls else "?"
        numbers = f"{each.calls:,}", f"{about}{each.sent:,}", f"{about}{each.written:,}", price
        cells.append((sanitize(name.replace(f"{Path.home()}/", "~/", 1)), *numbers))
    heads = (Column(head, right=True) for head in ("calls", "tokens in", "out", "cost"))
    page = Page.of(terminal)
    page.write(page.table((Column(by, cut="middle", least=12), *heads), cells), terminal)
    if whole.unpriced:
        terminal.note("the price of some calls is unknown; see `repoagent models`", "dim")
    if whole.estimated:
        terminal.note(
            "~ marks totals that include estimates, for providers that report no token counts", "dim"
        )
    if limit is not None:
        terminal.note(f"max_cost_per_day is {dollars(limit, 0)}", "dim")
