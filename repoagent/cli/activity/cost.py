"""`repoagent activity --cost`: what was spent on models, in all repositories of this user."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.cli.program.session import Session, find_layout
from repoagent.cli.screen.clean import clean
from repoagent.cli.screen.glance import Column, table
from repoagent.dataclass import dataclass
from repoagent.errors import NothingDone, UsageError

if TYPE_CHECKING:
    from repoagent.llm.ledger import Spent

VERSION = 1
_AGO = re.compile(r"([0-9]{1,4})d")
BY: dict[str, Callable[[Spent], Iterable[str]]] = {
    "day": lambda spent: [spent.time[:10]],
    "model": lambda spent: [spent.model],
    "repository": lambda spent: [spent.repository],
    "run": lambda spent: [spent.run or "models test"],
    "file": lambda spent: [f"{spent.repository}/{file}" for file in spent.files],
    "call": lambda spent: [spent.time],
}


@dataclass
class _Sum:
    """`unpriced` of the `calls` are in `cost` (US dollars) with nothing, since nobody knows their price."""

    calls: int = 0
    sent: int = 0
    written: int = 0
    cost: float = 0.0
    unpriced: int = 0
    estimated: bool = False

    def add(self, spent: Spent, share: float) -> None:
        self.calls += 1
        self.sent += round((spent.usage.total - spent.usage.output) * share)
        self.written += round(spent.usage.output * share)
        self.cost += (spent.cost or 0.0) * share
        self.unpriced += spent.cost is None
        self.estimated |= spent.usage.estimated


def show_cost(session: Session, *, by: str, since: str, here: bool, as_json: bool) -> None:
    """Print a line for each `by`: the calls of models, their tokens and cost, failed ones too. A call about several
    files counts for each of them with its share."""
    from repoagent.activity.events import tops
    from repoagent.llm.ledger import read, state_folder
    from repoagent.repo.worktree import open_worktree

    settings, terminal = session.open(find_layout())
    only = tops(open_worktree(Path.cwd())) if here else None
    folder = state_folder()
    sums: dict[str, _Sum] = {}
    for spent in read(folder, first_day(since)):
        names = list(BY[by](spent))
        for name in names if only is None or spent.repository in only else []:
            sums.setdefault(name, _Sum()).add(spent, 1 / len(names))
    if by in ("model", "repository", "file"):  # the dearest first; what happens in time stays in its order
        sums = dict(sorted(sums.items(), key=lambda item: (-item[1].cost, -item[1].sent)))
    limit = settings.number_or_none("max_cost_per_day")
    if as_json:
        rows = [{by: name, **_as_object(total)} for name, total in sums.items()]
        content = {"version": VERSION, "folder": str(folder), "max_cost_per_day": limit, "rows": rows}
        terminal.result(json.dumps(content, indent=2) + "\n")
        return
    if not sums:
        raise NothingDone(
            f"nothing was spent{'' if since == 'ever' else ' since ' + since}: {folder} has no call"
        )
    texts = [(clean(_shown(name)), *_cells(total)) for name, total in sums.items()]
    if len(texts) > 1:
        texts.append(("in all", *_cells(_all(sums.values()))))
    numbers = (Column(head, right=True) for head in ("calls", "tokens in", "out", "cost"))
    heads = (Column(by, cut="middle", least=12), *numbers)
    cells = [[(cell,) for cell in row] for row in texts]
    for line in table(heads, cells, terminal.width if terminal.shows else None, color=terminal.color):
        terminal.styled(f"{line}\n")
    if any(total.unpriced for total in sums.values()):
        terminal.note("some of these calls have no known price: see `repoagent models`", "dim")
    if any(total.estimated for total in sums.values()):
        terminal.note("~ with tokens that were estimated, where the provider did not count them", "dim")
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
        raise UsageError(f"--since {since} is no day: say 2026-11-30, today, 7d or ever") from None


def _cells(total: _Sum) -> tuple[str, str, str, str]:
    about = "~" if total.estimated else ""
    unknown = "+" if total.unpriced else ""
    return (
        f"{total.calls:,}",
        f"{about}{total.sent:,}",
        f"{about}{total.written:,}",
        f"${total.cost:.4f}{unknown}",
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
