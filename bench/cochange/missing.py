"""Does the kernel name the file that was left out? Temporal replay: `python -m bench.cochange.missing --repo PATH...`

The last 20 % of the commits (no merges) of a history are replayed, oldest first; what is asked about a commit is
answered from earlier commits only. Of a commit with 2 to 30 files that existed before, each of at most 3 files, drawn
with `--seed`, is left out in turn (their weights add up to 1), and the method is asked with the rest. A commit with 1
to 30 such files is also asked about as it is.

recall@3    share of the left-out files that are among the at most 3 files warned of
precision   warned files that are the left-out one / all warned files, over the commits with one left out
alarms      share of the complete commits, single-file ones too, that warn at all

Each method has its own threshold for 5 % alarms, chosen every 25 commits from what it would have said at the commits
just before (the product's `calibrate` for the kernel, which sees nothing else). Means weigh every repository the same.
The others are asked helped and as is (`methods`).
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.cochange.history import Change, Histories, MemoryView, load
from bench.cochange.methods import SCORING_METHODS, Scores
from bench.options import REPOSITORIES, options
from bench.origins import name_of
from repoagent.history.missing_partners import FURTHER, JUDGED, NEVER, calibrate, missing

LAST, LARGEST, SHOWN, DRAWN = 0.2, 30, 3, 3
ALARMS = 0.05
EVERY = 25  # commits between two calibrations
KERNEL = "the kernel"


@dataclass(frozen=True)
class Asked:
    """What one method said to one query: its best files with their scores, and the threshold of that day."""

    dropped: int | None
    weight: float
    best: tuple[tuple[float, int], ...]
    threshold: float


class Figures(NamedTuple):
    """Shares, 0 to 1; the precision is None without a warning."""

    recall: float
    precision: float | None
    alarms: float


@dataclass
class Run:
    """The answers of each method in the reported part, and its alarms at all complete commits so far."""

    asked: dict[str, list[Asked]] = field(default_factory=dict)
    alarms: dict[str, list[float]] = field(default_factory=dict)


def kernel(history: MemoryView, asked: Sequence[int], author: int | None) -> Scores:
    """The product: the highest threshold at which it warns of each file."""
    said = missing(history, asked, limit=SHOWN, threshold=0.0, author=author)
    return {found.file: found.confidence - (FURTHER if place else 0) for place, found in enumerate(said)}


def replay(changes: Sequence[Change], seed: int) -> Run:
    """Ask every method about the last fifth of a history."""
    names = (KERNEL, *SCORING_METHODS)
    run = Run({name: [] for name in names}, {name: [] for name in names})
    source = random.Random(seed)
    history = Histories()
    start = int(len(changes) * (1 - LAST))
    thresholds: dict[str, float] = {}
    authors: dict[bytes, int] = {}
    for number, change in enumerate(changes):
        files = _existed(history, change) if number >= start - JUDGED else []
        if number >= start and (number - start) % EVERY == 0:
            thresholds = {name: _threshold(alarms[-JUDGED:]) for name, alarms in run.alarms.items()}
            thresholds[KERNEL] = calibrate(history, false_alarms=ALARMS)
        if files and len(change.entries) <= LARGEST:
            author = authors.get(change.author)
            drawn = source.sample(files, min(DRAWN, len(files))) if len(files) > 1 and number >= start else []
            methods = {KERNEL: partial(kernel, author=author), **SCORING_METHODS}
            for name, method in methods.items():
                answer = partial(_answer, history, method)
                best = answer(files)
                run.alarms[name].append(best[0][0] if best else 0.0)
                if number >= start:
                    run.asked[name].append(Asked(None, 1.0, best, thresholds[name]))
                for file in drawn:
                    rest = [other for other in files if other != file]
                    run.asked[name].append(Asked(file, 1 / len(drawn), answer(rest), thresholds[name]))
        history.add(change)
        authors[change.author] = history.all[-1].author
    return run


def _existed(history: MemoryView, change: Change) -> list[int]:
    """The files of a change that were there before it."""
    found = {history.file(before) for letter, before, _ in change.entries if letter not in (b"A", b"C")}
    return sorted(file for file in found if file is not None and file in history.alive)


def _answer(
    history: Histories, method: Callable[[Histories, Sequence[int]], Scores], asked: Sequence[int]
) -> tuple[tuple[float, int], ...]:
    scores = method(history, asked)
    return tuple(sorted(((scores[file], file) for file in scores if file not in asked), reverse=True)[:SHOWN])


def _threshold(alarms: Sequence[float]) -> float:
    """The lowest at which at most 5 % of these would have warned."""
    ranked = sorted(alarms, reverse=True)
    return ranked[int(ALARMS * len(ranked))] + 1e-9 if ranked else NEVER


def figures(asked: Sequence[Asked]) -> Figures:
    right = wrong = weight = 0.0
    alarms: list[bool] = []
    for query in asked:
        warned = [file for score, file in query.best if score >= query.threshold]
        if query.dropped is None:
            alarms.append(bool(warned))
            continue
        hits = warned.count(query.dropped)
        weight += query.weight
        right += hits * query.weight
        wrong += (len(warned) - hits) * query.weight
    precision = right / (right + wrong) if right + wrong else None
    return Figures(right / weight if weight else 0.0, precision, sum(alarms) / max(1, len(alarms)))


def table(rows: Mapping[str, Sequence[Figures]]) -> Iterator[str]:
    """One line per method: the means over the repositories."""
    yield f"{'':<26}recall@3  precision  alarms"
    for method, per in rows.items():
        precisions = [each.precision for each in per if each.precision is not None]
        recall, alarms = (
            statistics.fmean(getattr(each, name) for each in per) for name in ("recall", "alarms")
        )
        yield f"{method:<26}{recall:8.3f}  {statistics.fmean(precisions or [0]):9.3f}  {alarms:6.3f}"


def main() -> None:
    given = options("bench.cochange.missing", __doc__, repo=([Path], REPOSITORIES), seed=(1, ""))
    rows: dict[str, list[Figures]] = {}
    for repository in given.repo:
        run = replay(load(repository), given.seed)
        for method, asked in run.asked.items():
            rows.setdefault(method, []).append(figures(asked))
        mine = rows[KERNEL][-1]
        shown = "-" if mine.precision is None else f"{mine.precision:.2f}"
        line = f"recall@3 {mine.recall:.3f}  precision {shown}  alarms {mine.alarms:.3f}"
        print(f"{name_of(repository):<40} {line}", flush=True)
    print(*table(rows), sep="\n")


if __name__ == "__main__":
    main()
