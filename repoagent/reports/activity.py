"""The events of a repository.

They are read from the memories, `edits.jsonl` of each work tree, the review log, the run folders and the spend log.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.git.worktree import WorkTree, layout_of
from repoagent.llm.usage import SpendEntry, read_spend_log, state_folder
from repoagent.memory.edit_records import EditRecord
from repoagent.memory.identity.memory_index import memory_folders
from repoagent.review.finding import read_log
from repoagent.storage import json_files
from repoagent.storage.atomic import read_regular
from repoagent.storage.layout import Layout, Warn

Kind = Literal["edit", "undo", "redo", "review", "run"]
APPLIED = ("committed", "written")
_AGAIN: Mapping[str, Kind] = {"undone": "undo", "redone": "redo"}


@dataclass(frozen=True)
class Event:
    """An edit, undo, redo, review or run.

    state: that of the `EditRecord` or of run.json; "unfinished" for a run that has not ended, "reviewed" for a review.
    reasons: why an edit was refused.
    cost: in US dollars; None if unknown.
    """

    time: datetime
    kind: Kind
    id: str
    what: str  # the request, the task, or the reviewed change
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
    """The events of a repository, and what was `spent` on model calls, including failed ones. Both are oldest first."""

    events: tuple[Event, ...]
    spent: tuple[SpendEntry, ...]


def gather(worktree: WorkTree, *, since: date | None, warn: Warn) -> Activity:
    """Return the activity since the day `since` (None: all of it), in all work trees of the repository.

    A model call counts if it was made in one of the work trees or for a known edit. Skips invalid lines; `warn` gets a
    sentence for each unusable file.
    """
    where = layout_of(worktree)
    tops, git_dirs = work_trees(worktree)
    memories = (where.memory / name / "edits.jsonl" for name in sorted(memory_folders(where.memory)))
    sources = [
        *(_of_memory(file, warn) for file in memories),  # first, because only they have the requests
        *(_of_worktree(Layout(where.root, git_dir).edits, warn) for git_dir in git_dirs),
    ]
    # unite the events of an edit of several files, and those of the nth undo of an edit
    edits: dict[tuple[str, str, int], Event] = {}
    for source in sources:
        counts: Counter[tuple[str, str]] = Counter()
        for event in source:
            pair = (event.kind, event.id)
            key = (*pair, 0 if event.kind == "edit" else counts[pair])
            counts[pair] += 1
            first = edits.setdefault(key, event)
            files = dict.fromkeys((*first.files, *event.files))
            edits[key] = replace(first, files=tuple(files), commit=first.commit or event.commit)
    events = sorted((*edits.values(), *_reviews_and_runs(where, warn)), key=lambda event: event.time)
    ids = {event.id for event in events if event.kind in ("edit", "run")}
    spent = (
        entry
        for entry in read_spend_log(state_folder(), since)
        if entry.repository in tops or entry.run in ids
    )
    return Activity(
        tuple(event for event in events if since is None or event.time.astimezone().date() >= since),
        tuple(spent),
    )


def work_trees(worktree: WorkTree) -> tuple[set[str], list[Path]]:
    """Return the top folders of all work trees, spelled as in the spend log, and their git directories.

    The git directory of `worktree` comes first.
    """
    tops = {str(worktree.top)} | ({str(worktree.main_top)} if worktree.main_top is not None else set())
    git_dirs = dict.fromkeys((worktree.git_dir, worktree.common_dir))
    for file in sorted(worktree.common_dir.glob("worktrees/*/gitdir")):
        git_dirs[file.parent] = None
        try:
            linked = os.fsdecode(file.read_bytes().removesuffix(b"\n"))
        except OSError:
            continue
        tops.add(os.path.realpath(file.parent / linked).removesuffix("/.git"))
    return tops, list(git_dirs)


def _of_memory(path: Path, warn: Warn) -> Iterator[Event]:
    """An edit of several files is in the memory of each."""
    ids: set[str] = set()
    for line in json_files.read_records(path, warn=warn):
        record = EditRecord.from_dict(line)
        time = _time(line.get("time"))
        if record is None or time is None:
            continue
        kind = _AGAIN.get(record.state, "edit") if record.id in ids else "edit"
        ids.add(record.id)
        untouched = record.state in APPLIED and record.source_blob == record.result_blob
        yield Event(
            time, kind, record.id, record.request, () if untouched else (record.path,), record.state,
            record.reasons, record.commit, record.model,
            *((record.usage.total, record.cost) if kind == "edit" else ()),  # an undo repeats those of the edit
        )  # fmt: skip


def _of_worktree(path: Path, warn: Warn) -> Iterator[Event]:
    """Also the edits without memory, but all without their requests."""
    for line in json_files.read_records(path, warn=warn):
        time, kind, paths = _time(line.get("time")), line.get("event"), line.get("paths")
        if time is None or kind not in ("edit", "undo", "redo") or not isinstance(paths, list):
            continue
        commit = line.get("commit")
        state = {"undo": "undone", "redo": "redone"}.get(kind, "committed" if commit else "written")
        yield Event(
            time, kind, str(line.get("id", "")), "", tuple(map(str, paths)), state,
            commit=commit if isinstance(commit, str) else None,
        )  # fmt: skip


def _reviews_and_runs(where: Layout, warn: Warn) -> Iterator[Event]:
    """The reviews, and the runs with the time of their start; broken runs are skipped, since `runs` reports them."""
    for line in read_log(where, warn=warn):
        if (time := _time(line.get("time"))) is None:
            continue
        counts = [line.get(level, 0) for level in ("notes", "warnings", "errors")]
        yield Event(
            time, "review", str(line.get("head") or ""), str(line.get("title", "")), (), "reviewed",
            findings=sum(count for count in counts if isinstance(count, int)), **_usage(line),
        )  # fmt: skip
    for file in sorted(where.runs.glob("*/run.json")) if not where.runs.is_symlink() else []:
        try:
            record = json_files.parse_document(read_regular(file) or b"") or {}
        except Refused as error:
            warn(str(error))
            continue
        if record.get("version") != 1 or (time := _time(record.get("started"))) is None:
            continue
        commits = record.get("commits")
        yield Event(
            time, "run", file.parent.name, str(record.get("prompt", "")), (),
            str(record.get("state", "")) if record.get("ended") else "unfinished",
            commit=str(commits[-1]) if isinstance(commits, list) and commits else None,
            **_usage(record),
        )  # fmt: skip


def _usage(record: Mapping[str, Any]) -> dict[str, Any]:
    tokens, cost = record.get("tokens"), record.get("cost")
    return {
        "model": str(record.get("model", "")),
        "tokens": tokens if isinstance(tokens, int) else 0,
        "cost": float(cost) if isinstance(cost, int | float) and 0 <= cost < 10**15 else None,
    }


def _time(value: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time.astimezone() if time is not None else None


def was_applied(event: Event) -> bool:
    """Whether an edit changed its files, even if it was undone later."""
    return event.state in (*APPLIED, "undone", "redone")


def unapplied(activity: Activity) -> list[tuple[str, int]]:
    """Return the states of edits that changed nothing, with their counts; "refused" and "failed" come first."""
    states = (event.state for event in activity.events if event.kind == "edit" and not was_applied(event))
    count = Counter(state for state in states if state != "answered")
    return sorted(count.items(), key=lambda item: (item[0] not in ("refused", "failed"), -item[1], item[0]))


def refusals(activity: Activity) -> list[tuple[str, int]]:
    """Return the reasons why edits were not applied, with counts, the most frequent first.

    An edit counts once for each of its reasons.
    """
    count: Counter[str] = Counter()
    for event in activity.events:
        if event.kind == "edit" and not was_applied(event) and event.state != "answered":
            count.update(event.reasons or (event.state,))
    return sorted(count.items(), key=lambda item: (-item[1], item[0]))
