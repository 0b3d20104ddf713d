"""Measure warnings of a missing file in a temporal replay: `python -m bench.cochange.missing --repo PATH...`

The last 20 % of the non-merge commits of a history are replayed, oldest first; answers use earlier commits only.
Commits with more than 30 files are skipped. If at least 2 files of a commit existed before, up to 3 of them, drawn
with `--seed`, are left out in turn (their weights add up to 1) and the methods get the others. Every commit with such
a file is also queried complete.

recall@3    share of the left-out files that are among the (at most 3) files warned of
precision   warned files that are the left-out one / all warned files, over the commits with one left out
alarms      share of the complete commits, including single-file ones, with a warning

Every 25 commits, each method gets a new threshold for 5 % alarms, from its answers to the latest complete commits (for
the kernel, from the product's `calibrate_threshold`). Means weigh every repository the same. Other methods run helped
and as is (see `methods`).
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
from repoagent.history.missing_partners import FURTHER, JUDGED, NEVER, calibrate_threshold, find_missing

LAST, LARGEST, SHOWN, DRAWN = 0.2, 30, 3, 3
ALARMS = 0.05
EVERY = 25  # commits between two calibrations
KERNEL = "the kernel"


@dataclass(frozen=True)
class Answer:
    """A method's best files for one query, with their scores, and its threshold at that time."""

    dropped: int | None  # the left-out file; None for a complete commit
    weight: float
    best: tuple[tuple[float, int], ...]
    threshold: float


class Figures(NamedTuple):
    """Shares, 0 to 1; the precision is None if there was no warning."""

    recall: float
    precision: float | None
    alarms: float


@dataclass
class Run:
    """The answers of each method in the replayed part, and its highest scores for all complete commits."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    alarms: dict[str, list[float]] = field(default_factory=dict)


def kernel(history: MemoryView, files: Sequence[int], author: int | None) -> Scores:
    """The highest threshold at which the product warns of each file."""
    partners = find_missing(history, files, limit=SHOWN, threshold=0.0, author=author)
    return {each.file: each.confidence - (FURTHER if rank else 0) for rank, each in enumerate(partners)}


def replay(changes: Sequence[Change], seed: int) -> Run:
    """Query every method about the commits in the last fifth of a history."""
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
            thresholds[KERNEL] = calibrate_threshold(history, false_alarms=ALARMS)
        if files and len(change.entries) <= LARGEST:
            author = authors.get(change.author)
            drawn = source.sample(files, min(DRAWN, len(files))) if len(files) > 1 and number >= start else []
            methods = {KERNEL: partial(kernel, author=author), **SCORING_METHODS}
            for name, method in methods.items():
                answer = partial(_answer, history, method)
                best = answer(files)
                run.alarms[name].append(best[0][0] if best else 0.0)
                if number >= start:
                    run.answers[name].append(Answer(None, 1.0, best, thresholds[name]))
                for file in drawn:
                    rest = [other for other in files if other != file]
                    run.answers[name].append(Answer(file, 1 / len(drawn), answer(rest), thresholds[name]))
        history.add(change)
        authors[change.author] = history.all[-1].author
    return run


def _existed(history: MemoryView, change: Change) -> list[int]:
    """The files of a change that existed before it."""
    files = {history.file(before) for letter, before, _ in change.entries if letter not in (b"A", b"C")}
    return sorted(file for file in files if file is not None and file in history.alive)


def _answer(
    history: Histories, method: Callable[[Histories, Sequence[int]], Scores], files: Sequence[int]
) -> tuple[tuple[float, int], ...]:
    scores = method(history, files)
    return tuple(sorted(((scores[file], file) for file in scores if file not in files), reverse=True)[:SHOWN])


def _threshold(alarms: Sequence[float]) -> float:
    """The lowest threshold that at most 5 % of these scores reach."""
    ranked = sorted(alarms, reverse=True)
    return ranked[int(ALARMS * len(ranked))] + 1e-9 if ranked else NEVER


def figures(answers: Sequence[Answer]) -> Figures:
    right = wrong = weight = 0.0
    alarms: list[bool] = []
    for answer in answers:
        warned = [file for score, file in answer.best if score >= answer.threshold]
        if answer.dropped is None:
            alarms.append(bool(warned))
            continue
        hits = warned.count(answer.dropped)
        weight += answer.weight
        right += hits * answer.weight
        wrong += (len(warned) - hits) * answer.weight
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
    args = options("bench.cochange.missing", __doc__, repo=([Path], REPOSITORIES), seed=(1, ""))
    rows: dict[str, list[Figures]] = {}
    for repository in args.repo:
        run = replay(load(repository), args.seed)
        for method, answers in run.answers.items():
            rows.setdefault(method, []).append(figures(answers))
        mine = rows[KERNEL][-1]
        shown = "-" if mine.precision is None else f"{mine.precision:.2f}"
        line = f"recall@3 {mine.recall:.3f}  precision {shown}  alarms {mine.alarms:.3f}"
        print(f"{name_of(repository):<40} {line}", flush=True)
    print(*table(rows), sep="\n")


if __name__ == "__main__":
    main()
