"""Which files change together with some files, the surest first.

The score of a file is 1 - exp(-x), where x is the sum of what each kind of evidence says: its share of the commits of
the asked files (newer and smaller commits weigh more), how often it changes with their partners, whether it was part of
the work of the last commits, and how much of its name it shares with the asked ones, where that is rare. The weights
were chosen by replaying the history of public repositories (docs/benchmarks.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from math import exp
from typing import TYPE_CHECKING, NamedTuple

from repoagent.history.cochange import kernel, names
from repoagent.history.cochange.alive import Alive

if TYPE_CHECKING:
    from repoagent.history.cochange.view import Commit, View

COMMITS = 300  # of the asked files that are looked at
FOLDER = 50
YOUNG = 20  # with fewer commits, what changes with the other files of the folder counts too
EVIDENCE = 20
COMPARED = 50  # the best candidates, whose names are compared
APART = 10  # so many asked files are each asked by themselves; more, as of a folder, count as one file
ASKED_NAMES = 10  # of more than so many, only the first names speak

Evidence = tuple[str, float, dict[int, float]]  # the reason, its weight, and what it says of each file

THROUGH, CURRENT, RECENT = 0.25, 0.2, 0.03
STEM, WORDS, SIBLING, BESIDE = 0.1, 0.25, 0.03, 0.05
SURE = 2.0  # a shared word counts so many times more for a file that is in all commits of the asked ones


class Neighbor(NamedTuple):
    """A file that changed with the asked ones, or might.

    `score` is 0 to 1. It changed in `together` of the last `commits` commits of the asked files; `last` is the
    committer date (seconds since 1970) of the newest with both, `evidence` the numbers of these commits, newest first,
    at most 20. `reasons` are codes, the telling one first: "together"; "through" (it changes with their partners);
    "name"; "folder"; and last, for it is no kinship, "recent" (part of the newest commits of all).
    """

    file: int
    path: bytes
    score: float
    together: int
    commits: int
    last: int | None
    evidence: tuple[int, ...]
    reasons: tuple[str, ...]


def neighbors(
    view: View,
    files: Sequence[int],
    paths: Sequence[bytes],
    *,
    limit: int = 20,
    min_score: float = 0.0,
) -> list[Neighbor]:
    """The neighbors of the asked `files`, best first, ties by path: at most `limit`, alive, none of the asked ones.

    `paths` are the asked paths; one of a file without history speaks by its name and folder alone. Several files: the
    mean of what each says by itself. Who made the newest commit is taken to be at work.
    """
    asked = frozenset(files)
    histories = view.many(list(dict.fromkeys(files)), COMMITS) if files else {}
    every = _newest(histories.values())
    latest = view.latest(kernel.LATEST)
    newest = latest[0].number if latest else 0
    worker = latest[0].author if latest else None
    evidence: list[Evidence] = []
    shares: list[dict[int, float]] = []
    alive = Alive(view)
    groups = [every] if len(histories) > APART else list(histories.values())
    for history in groups:
        share, current = kernel.direct(history, asked, newest)
        partners = alive.best(share, kernel.PARTNERS)
        part = 1 / len(groups)
        shares.append(share)
        evidence.append(("together", part, share))
        evidence.append(("together", CURRENT * part, current))
        evidence.append(("through", THROUGH * part, kernel.through(view, share, partners, asked)))
    speaking = paths[:ASKED_NAMES]
    for path in speaking:
        same = [file for file in view.namesakes(names.stem(path)) if file not in asked]
        siblings = [file for file in view.folder(path.rpartition(b"/")[0], FOLDER) if file not in asked]
        same = list(alive.of(same))
        part = 1 / len(speaking)
        evidence.append(("name", STEM * part, {file: 1 / len(same) for file in same}))
        evidence.append(
            ("folder", SIBLING * part, {file: 1 / (1 + rank) for rank, file in enumerate(siblings)})
        )
        if len(every) < YOUNG:
            evidence.append(("folder", BESIDE * part, kernel.beside(view, siblings, asked)))
    scores: dict[int, float] = {}
    for _, factor, found in evidence:
        _add(scores, factor, found)
    recent = kernel.recent(latest, asked, worker)
    if scores:  # being recent alone is no kinship, and better than no answer
        recent = {file: value for file, value in recent.items() if file in scores}
    evidence.append(("recent", RECENT, recent))
    _add(scores, RECENT, recent)
    present = alive.best(scores, max(limit, COMPARED), frozenset(paths))
    scores = {file: scores[file] for file in present}
    compared = {file: present[file] for file in _best(scores, present, COMPARED)}
    for path in speaking:
        like = names.alike(path, compared)
        like = {file: value * (1 + SURE * _mean(shares, file)) for file, value in like.items()}
        evidence.append(("name", WORDS / len(speaking), like))
        _add(scores, *evidence[-1][1:])
    shown = [file for file in _best(scores, present, limit) if _bounded(scores[file]) >= min_score]
    together = kernel.together(every, shown)
    return [
        _neighbor((file, present[file]), scores[file], len(every), together[file], evidence) for file in shown
    ]


def _newest(histories: Iterable[Sequence[Commit]]) -> list[Commit]:
    """The newest commits of several histories, newest first, each once."""
    every = {commit.number: commit for history in histories for commit in history}
    return [every[number] for number in sorted(every, reverse=True)[:COMMITS]]


def _mean(shares: Sequence[Mapping[int, float]], file: int) -> float:
    return sum(share.get(file, 0.0) for share in shares) / len(shares) if shares else 0.0


def _bounded(score: float) -> float:
    """0 to 1, in the same order; small scores stay nearly as they are."""
    return 1 - exp(-score)


def _best(scores: Mapping[int, float], paths: Mapping[int, bytes], limit: int) -> list[int]:
    """The files with the highest scores, ties by path."""
    if len(scores) > limit > 0:  # sorting by path is dear: only those that can be among them
        least = nlargest(limit, scores.values())[-1]
        scores = {file: score for file, score in scores.items() if score >= least}
    return sorted(scores, key=lambda file: (-scores[file], paths[file]))[:limit]


def _add(total: dict[int, float], factor: float, found: Mapping[int, float]) -> None:
    if not total:  # the first is the largest
        total.update({file: factor * value for file, value in found.items()})
        return
    known = total.get
    for file, value in found.items():
        total[file] = known(file, 0.0) + factor * value


def _neighbor(
    named: tuple[int, bytes],
    score: float,
    looked_at: int,
    commits: Sequence[Commit],
    evidence: Sequence[Evidence],
) -> Neighbor:
    file, path = named
    parts: dict[str, float] = {}
    for reason, factor, found in evidence:
        if file in found:
            parts[reason] = parts.get(reason, 0.0) + factor * found[file]
    return Neighbor(
        file,
        path,
        _bounded(score),
        len(commits),
        looked_at,
        commits[0].time if commits else None,
        tuple(commit.number for commit in commits[:EVIDENCE]),
        tuple(sorted(parts, key=lambda reason: (reason == "recent", -parts[reason], reason))),
    )
