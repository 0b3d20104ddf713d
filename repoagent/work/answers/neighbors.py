"""Which files change together with some files, as plain values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.work.answers.revisions import sayable

if TYPE_CHECKING:
    from repoagent.repo import WorkTree


@dataclass(frozen=True)
class Neighbor:
    """A file that changes with those that were asked about.

    `score` says how surely, 0 to 1; `together` in how many of their `commits` it changed too; `rate` is "high",
    "medium", "low", or None when they never did; `last` when both last changed in one commit (ISO 8601, UTC; None for
    never). `reasons` are of "together", "through" (shared partners), "recent", "name", "folder"; `evidence` the full
    ids of commits behind it; `weak` says that there is too little evidence to be shown unasked.
    """

    path: str
    score: float
    together: int
    commits: int
    rate: str | None
    last: str | None
    reasons: tuple[str, ...]
    weak: bool
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Neighbors:
    """The surest first. `commit` is the id that `revision` meant, "" before the first one; `commits` how many commits
    of `paths` were looked at. `state` is "whole", or "building", "recent" or "names" for an answer from a part of the
    history; `note` says then, or else, what a reader should know ("" for nothing)."""

    paths: tuple[str, ...]
    revision: str
    commit: str
    state: str
    note: str
    commits: int
    neighbors: tuple[Neighbor, ...]


def neighbors_of(
    worktree: WorkTree,
    paths: Sequence[str],
    *,
    revision: str = "HEAD",
    limit: int = 20,
    min_score: float = 0.0,
) -> Neighbors:
    """The files that changed with `paths` (files or folders from the top). Raises UsageError for what does not exist,
    Refused for what is in a git directory."""
    from repoagent.history.neighbors import neighborhood
    from repoagent.history.wording import is_weak, rate

    found = neighborhood(worktree, paths, sayable(revision), limit=limit, min_score=min_score)
    rows = tuple(
        Neighbor(
            os.fsdecode(row.path),
            round(row.score, 4),
            row.together,
            row.commits,
            rate(row.together, row.commits),
            None if row.last is None else _date(row.last),
            tuple(row.reasons),
            is_weak(row),
            tuple(found.ids[number] for number in row.evidence),
        )
        for row in found.rows
    )
    names = tuple(map(os.fsdecode, found.paths))
    return Neighbors(names, found.revision, found.commit, found.state, found.note, found.looked_at, rows)


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
