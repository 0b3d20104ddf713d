"""Sums of what was done and spent: by day, by model, by file; and why edits were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import date, timedelta

from repoagent.activity.events import LANDED, Activity, Event
from repoagent.dataclass import dataclass
from repoagent.llm.ledger import Spent
from repoagent.llm.naming import public

_DAYS = 62  # columns of a chart; what is longer is shown by week, or by month


@dataclass
class Sum:
    """What one day, model or file came to. `cost` is in US dollars; `unpriced` calls are in it with nothing."""

    name: str
    applied: int = 0
    refused: int = 0
    undone: int = 0
    reviews: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    runs: int = 0

    def take(self, event: Event) -> None:
        if event.kind == "review":
            self.reviews += 1
        elif event.kind == "run":
            self.runs += 1
        elif event.kind == "undo":
            self.undone += 1
        elif event.kind == "edit" and event.state != "answered":
            if landed(event):
                self.applied += 1
            else:
                self.refused += 1

    def pay(self, spent: Spent, share: float = 1.0) -> None:
        self.calls += 1
        self.tokens += round(spent.usage.total * share)
        self.cost += (spent.cost or 0.0) * share
        self.unpriced += spent.cost is None

    def add(self, other: Sum) -> None:
        """Count what `other` came to as well."""
        for field in fields(self)[1:]:
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def price(self, digits: int) -> str:
        """The cost as it is shown; a + says that more was spent, of which no price is known."""
        if self.unpriced == self.calls:
            return "?" if self.calls else ""
        return f"${self.cost:,.{digits}f}{'+' if self.unpriced else ''}"


def landed(event: Event) -> bool:
    """Whether an edit changed its files. A memory's first line says how it ended then; an undo is its own event."""
    return event.state in (*LANDED, "undone", "redone")


def by_day(activity: Activity) -> list[Sum]:
    """Every day from the first with anything to the last, those without anything too (at most the last 3,660)."""
    sums = _summed(activity, lambda event: [event.time.date().isoformat()], lambda spent: [spent.time[:10]])
    if not sums:
        return []
    days = sorted(sums)
    last = date.fromisoformat(days[-1])
    count = min((last - date.fromisoformat(days[0])).days + 1, 3660)
    names = [(last - timedelta(days=back)).isoformat() for back in range(count - 1, -1, -1)]
    return [sums.get(name, Sum(name)) for name in names]


def spans(days: Sequence[Sum]) -> tuple[str, list[Sum]]:
    """`days` as a chart can show them: "day", "week" or "month", and the sums of each; a week is named by its
    first day."""
    if len(days) <= _DAYS:
        return "day", list(days)
    unit = "week" if len(days) <= 7 * _DAYS else "month"
    sums: dict[str, Sum] = {}
    for day in days:
        name = day.name[:7] if unit == "month" else _monday(day.name)
        sums.setdefault(name, Sum(name)).add(day)
    return unit, list(sums.values())


def _monday(day: str) -> str:
    found = date.fromisoformat(day)
    return date.fromordinal(max(found.toordinal() - found.weekday(), 1)).isoformat()


def by_model(activity: Activity) -> list[Sum]:
    """The dearest first; what no model did is left out."""
    sums = _summed(
        activity, lambda event: [event.model] if event.model else [], lambda spent: [public(spent.model)]
    )
    return _dearest(sums.values())


def by_file(activity: Activity) -> list[Sum]:
    """The files with most edits first. A call for several files counts for each with its share."""
    sums = _summed(activity, lambda event: event.files, lambda spent: spent.files)
    return sorted(
        sums.values(), key=lambda one: (-one.applied - one.refused - one.undone, -one.cost, one.name)
    )


def unapplied(activity: Activity) -> list[tuple[str, int]]:
    """How the edits ended that changed nothing, refused and failed ones first, and how many did."""
    states = (event.state for event in activity.events if event.kind == "edit" and not landed(event))
    count = Counter(state for state in states if state != "answered")
    return sorted(count.items(), key=lambda item: (item[0] not in ("refused", "failed"), -item[1], item[0]))


def refusals(activity: Activity) -> list[tuple[str, int]]:
    """Why edits did not land, the most frequent reason first; an edit with several reasons counts for each."""
    count: Counter[str] = Counter()
    for event in activity.events:
        if event.kind == "edit" and not landed(event) and event.state != "answered":
            count.update(event.reasons or (event.state,))
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))


def total(activity: Activity) -> Sum:
    """Everything in one sum."""
    return _summed(activity, lambda _: [""], lambda _: [""]).get("", Sum(""))


def _summed(
    activity: Activity, of_event: Callable[[Event], Iterable[str]], of_call: Callable[[Spent], Iterable[str]]
) -> dict[str, Sum]:
    sums: dict[str, Sum] = {}
    for event in activity.events:
        for name in of_event(event):
            sums.setdefault(name, Sum(name)).take(event)
    for spent in activity.spent:
        names = list(of_call(spent))
        for name in names:
            sums.setdefault(name, Sum(name)).pay(spent, 1 / len(names))
    return sums


def _dearest(sums: Iterable[Sum]) -> list[Sum]:
    return sorted(sums, key=lambda one: (-one.cost, -one.tokens, one.name))
