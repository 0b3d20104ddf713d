"""The events of a repository, put together from the files that have them: each memory's edits, the edits of the work
tree, the log of reviews, the homes of runs, and the ledger of calls.

Sums of what was done and spent: by day, by model, by file; and why edits were refused.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.worktree import WorkTree, layout
from repoagent.llm.model import public
from repoagent.llm.usage import SpendEntry, read, state_folder
from repoagent.memory.edit_records import EditRecord
from repoagent.memory.identity.hints import folders
from repoagent.review.finding import read_log
from repoagent.storage import jsonl
from repoagent.storage.atomic import read_regular
from repoagent.storage.layout import Layout, Warn

Kind = Literal["edit", "undo", "redo", "review", "run"]
LANDED = ("committed", "written")
_AGAIN: Mapping[str, Kind] = {"undone": "undo", "redone": "redo"}


@dataclass(frozen=True)
class Event:
    """One thing that was done. `time` has its zone; `state` is how it ended, as in `EditRecord` ("reviewed" of a
    review; of a run as its run.json says, "unfinished" without an end); `cost` is in US dollars, None where no price is
    known; `reasons` say why it was refused."""

    time: datetime
    kind: Kind
    id: str
    what: str  # the request, the task, or what was reviewed
    files: tuple[str, ...]
    state: str
    reasons: tuple[str, ...] = ()
    commit: str | None = None
    model: str = ""
    tokens: int = 0
    cost: float | None = None
    findings: int = 0


@dataclass(frozen=True)
class Activity:
    """`events` and `spent` (the calls of models for this repository, failed ones too), oldest first."""

    top: Path
    events: tuple[Event, ...]
    spent: tuple[SpendEntry, ...]


def gather(worktree: WorkTree, *, since: date | None, warn: Warn) -> Activity:
    """All that was done since the day `since` (None: ever), in this work tree and in the others of its repository.

    A call counts if it was made in one of the work trees, or for an edit that is known here, so that what was spent
    in a work tree that was moved or removed is not lost. Reads every `edits.jsonl`; lines that are none are skipped,
    files that can't be used are said.
    """
    place = layout(worktree)
    tops, private = _work_trees(worktree)
    lists = [Layout(place.root, git_dir).edits for git_dir in private]
    sources = [
        *_remembered(place, warn),
        *(_unremembered(path, warn) for path in lists),
        _reviews(place, warn),
        _runs(place, warn),
    ]
    events = sorted(
        _joined(sources), key=lambda event: event.time
    )  # of one second: in the order of their source
    ids = {event.id for event in events if event.kind in ("edit", "run")}
    spent = (entry for entry in read(state_folder(), since) if entry.repository in tops or entry.run in ids)
    return Activity(
        worktree.top,
        tuple(event for event in events if since is None or event.time.astimezone().date() >= since),
        tuple(spent),
    )


def tops(worktree: WorkTree) -> set[str]:
    """The tops of all work trees of the repository, as the ledger names them."""
    return _work_trees(worktree)[0]


def _work_trees(worktree: WorkTree) -> tuple[set[str], list[Path]]:
    """The tops of the work trees, and their git directories, this one's first. A linked one's `gitdir` names the
    `.git` at its top; git makes and prunes these files."""
    found = {str(worktree.top)} | ({str(worktree.main_top)} if worktree.main_top is not None else set())
    private = dict.fromkeys((worktree.git_dir, worktree.common_dir))
    for named in sorted(worktree.common_dir.glob("worktrees/*/gitdir")):
        private[named.parent] = None
        try:
            linked = os.fsdecode(named.read_bytes().removesuffix(b"\n"))
        except OSError:
            continue
        found.add(os.path.realpath(named.parent / linked).removesuffix("/.git"))
    return found, list(private)


def _remembered(place: Layout, warn: Warn) -> Iterator[Iterator[Event]]:
    """What the memories of the files have; one event for each line, so the same edit comes once for each file."""
    for name in sorted(folders(place.memory)):
        yield _of_memory(place.memory / name / "edits.jsonl", warn)


def _of_memory(path: Path, warn: Warn) -> Iterator[Event]:
    first: set[str] = set()
    for line in jsonl.read_records(path, warn=warn):
        record = EditRecord.from_dict(line)
        time = _time(line.get("time"))
        if record is None or time is None:
            continue
        kind = _AGAIN.get(record.state, "edit") if record.id in first else "edit"
        first.add(record.id)
        untouched = record.state in LANDED and record.source_blob == record.result_blob
        yield Event(
            time, kind, record.id, record.request, () if untouched else (record.path,), record.state,
            record.reasons, record.commit, record.model,
            *((record.usage.total, record.cost) if kind == "edit" else ()),  # an undo has the edit's again
        )  # fmt: skip


def _unremembered(path: Path, warn: Warn) -> Iterator[Event]:
    """What a work tree knows of its edits: they have no words, but they are there without any memory."""
    for line in jsonl.read_records(path, warn=warn):
        time, kind, paths = _time(line.get("time")), line.get("event"), line.get("paths")
        if time is None or kind not in ("edit", "undo", "redo") or not isinstance(paths, list):
            continue
        state = {"undo": "undone", "redo": "redone"}.get(
            kind, "committed" if line.get("commit") else "written"
        )
        commit = line.get("commit")
        yield Event(
            time, kind, str(line.get("id", "")), "", tuple(map(str, paths)), state,
            commit=commit if isinstance(commit, str) else None,
        )  # fmt: skip


def _reviews(place: Layout, warn: Warn) -> Iterator[Event]:
    for line in read_log(place, warn=warn):
        if (time := _time(line.get("time"))) is not None:
            yield _review(time, line)


def _review(time: datetime, line: Mapping[str, Any]) -> Event:
    counts = [line.get(level, 0) for level in ("notes", "warnings", "errors")]
    tokens, cost = line.get("tokens"), line.get("cost")
    return Event(
        time, "review", str(line.get("head") or ""), str(line.get("title", "")), (), "reviewed",
        model=str(line.get("model", "")),
        tokens=tokens if isinstance(tokens, int) else 0,
        cost=float(cost) if isinstance(cost, int | float) else None,
        findings=sum(count for count in counts if isinstance(count, int)),
    )  # fmt: skip


def _runs(place: Layout, warn: Warn) -> Iterator[Event]:
    """The runs of tasks, at the time of their beginning. What is broken is left to `repoagent runs` to say."""
    for file in sorted(place.runs.glob("*/run.json")) if not place.runs.is_symlink() else []:
        try:
            said = jsonl.parse(read_regular(file) or b"") or {}
        except Refused as error:
            warn(str(error))
            continue
        if said.get("version") == 1 and (time := _time(said.get("started"))) is not None:
            yield _run(file.parent.name, time, said)


def _run(name: str, time: datetime, said: Mapping[str, Any]) -> Event:
    tokens, cost, commits = said.get("tokens"), said.get("cost"), said.get("commits")
    return Event(
        time, "run", name, str(said.get("prompt", "")), (),
        str(said.get("state", "")) if said.get("ended") else "unfinished",
        commit=str(commits[-1]) if isinstance(commits, list) and commits else None,
        model=str(said.get("model", "")),
        tokens=tokens if isinstance(tokens, int) else 0,
        cost=cost if isinstance(cost, float) and 0 <= cost < 10**15 else None,
    )  # fmt: skip


def _joined(sources: Iterable[Iterable[Event]]) -> Iterator[Event]:
    """One event for what stands in several sources: an edit of several files, and the same undo, which is the first
    or second of its edit in each. Those with words come first, so they count."""
    known: dict[tuple[str, str, int], Event] = {}
    for source in sources:
        seen: Counter[tuple[str, str]] = Counter()
        for event in source:
            if event.kind in ("review", "run"):
                yield event
                continue
            pair = (event.kind, event.id)
            key = (*pair, 0 if event.kind == "edit" else seen[pair])
            seen[pair] += 1
            there = known.get(key)
            if there is None:
                known[key] = event
            else:
                files = dict.fromkeys((*there.files, *event.files))
                known[key] = replace(there, files=tuple(files), commit=there.commit or event.commit)
    yield from known.values()


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.astimezone() if time is not None else None


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

    def pay(self, spent: SpendEntry, share: float = 1.0) -> None:
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
    activity: Activity,
    of_event: Callable[[Event], Iterable[str]],
    of_call: Callable[[SpendEntry], Iterable[str]],
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
