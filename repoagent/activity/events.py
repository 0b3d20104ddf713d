"""The events of a repository, put together from the files that have them: each memory's edits, the edits of the work
tree, the log of reviews, the homes of runs, and the ledger of calls."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.ledger import Spent, read, state_folder
from repoagent.memory.identity.index import folders
from repoagent.memory.records import EditRecord
from repoagent.repo.worktree import WorkTree, layout
from repoagent.review.record import read_log
from repoagent.store import Layout, Warn, document, jsonl, read_regular

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
    spent: tuple[Spent, ...]


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
    for line in jsonl.read(path, warn=warn):
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
    for line in jsonl.read(path, warn=warn):
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
            said = document.parse(read_regular(file) or b"") or {}
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
