"""Does the kernel name the file that was left out? Temporal replay: `python -m bench.cochange.missing --repo PATH...`

The last 20 % of the commits (no merges) of a history are replayed, oldest first; what is asked about a commit is
answered from earlier commits only. Of a commit with 2 to 30 files that existed before, each of at most 3 files, drawn
with `--seed`, is left out in turn (their weights add up to 1), and the method is asked with the rest. A commit with 1
to 30 such files is also asked about as it is.

recall@3    share of the left-out files that are among the at most 3 files warned of
precision   warned files that are the left-out one / all warned files, over the commits with one left out
strict      the same over all queries: what is warned of at complete commits counts as wrong too
alarms      share of the complete commits, single-file ones too, that warn at all
alarms, 2+  the same of complete commits with 2 and more files, those that are also asked about with one left out

Each method has its own threshold for 5 % alarms, chosen in two ways. "From before": every 25 commits, from what it
would have said at the commits just before (the product's `calibrate` for the kernel, which sees nothing else). "In
hindsight": the one with which it reaches 5 % alarms on the very commits that are reported. Means weigh every repository
the same; `pooled` is the precision over the warnings of all. The others are asked helped and as is (`methods`).
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.cochange.history import Change, Histories, MemoryView, load
from bench.cochange.methods import SCORING_METHODS, Scores
from bench.options import REPOSITORIES, options
from bench.origins import name_of
from repoagent.history.cochange.missing import FURTHER, JUDGED, NEVER, calibrate, missing

LAST, LARGEST, SHOWN, DRAWN = 0.2, 30, 3, 3
ALARMS = 0.05
EVERY = 25  # commits between two calibrations
KERNEL = "the kernel"


@dataclass(frozen=True)
class Asked:
    """What one method said to one query: its best files with their scores, and the threshold of that day."""

    dropped: int | None
    weight: float
    files: int  # of the complete commit
    best: tuple[tuple[float, int], ...]
    threshold: float


@dataclass(frozen=True)
class Figures:
    """Shares, 0 to 1; `right`, `wrong` and `idle` are weighted numbers of warnings (idle: at complete commits)."""

    recall: float
    alarms: float
    alarms_several: float
    right: float
    wrong: float
    idle: float

    @property
    def precision(self) -> float | None:
        return _share(self.right, self.right + self.wrong)

    @property
    def strict(self) -> float | None:
        return _share(self.right, self.right + self.wrong + self.idle)


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
                    run.asked[name].append(Asked(None, 1.0, len(files), best, thresholds[name]))
                for file in drawn:
                    rest = [other for other in files if other != file]
                    said = Asked(file, 1 / len(drawn), len(files), answer(rest), thresholds[name])
                    run.asked[name].append(said)
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


def figures(asked: Sequence[Asked], threshold: float | None = None) -> Figures:
    """With one threshold for all, or with that of each day."""
    right = wrong = idle = weight = 0.0
    alarms: list[tuple[int, bool]] = []
    for query in asked:
        least = query.threshold if threshold is None else threshold
        warned = [file for score, file in query.best if score >= least]
        if query.dropped is None:
            alarms.append((query.files, bool(warned)))
            idle += len(warned)
            continue
        hits = warned.count(query.dropped)
        weight += query.weight
        right += hits * query.weight
        wrong += (len(warned) - hits) * query.weight
    several = [warned for files, warned in alarms if files > 1]
    return Figures(
        right / weight if weight else 0.0,
        sum(warned for _, warned in alarms) / max(1, len(alarms)),
        sum(several) / max(1, len(several)),
        right, wrong, idle,
    )  # fmt: skip


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def table(rows: dict[str, dict[str, Figures]], title: str) -> list[str]:
    """One line per method: the means over the repositories."""
    lines = [f"{title:<26}recall@3  precision  pooled  strict  alarms  alarms, 2+"]
    for method, per in rows.items():
        all_of = list(per.values())
        mean = statistics.fmean
        precisions = [each.precision for each in all_of if each.precision is not None]
        stricts = [each.strict for each in all_of if each.strict is not None]
        right, wrong = sum(each.right for each in all_of), sum(each.wrong for each in all_of)
        lines.append(
            f"{method:<26}{mean(e.recall for e in all_of):8.3f}  {mean(precisions or [0]):9.3f}"
            f"  {_share(right, right + wrong) or 0:6.3f}  {mean(stricts or [0]):6.3f}"
            f"  {mean(e.alarms for e in all_of):6.3f}  {mean(e.alarms_several for e in all_of):10.3f}"
        )
    return lines


def main() -> None:
    given = options("bench.cochange.missing", __doc__, repo=([Path], REPOSITORIES), seed=(1, ""))
    before: dict[str, dict[str, Figures]] = {}
    hindsight: dict[str, dict[str, Figures]] = {}
    for repository in given.repo:
        run = replay(load(repository), given.seed)
        name = name_of(repository)
        for method, asked in run.asked.items():
            complete = [query.best[0][0] if query.best else 0.0 for query in asked if query.dropped is None]
            before.setdefault(method, {})[name] = figures(asked)
            hindsight.setdefault(method, {})[name] = figures(asked, _threshold(complete))
        mine = before[KERNEL][name]
        shown = "-" if mine.precision is None else f"{mine.precision:.2f}"
        print(
            f"{name:<40} recall@3 {mine.recall:.3f}  precision {shown}  alarms {mine.alarms:.3f}", flush=True
        )
    for title, rows in (("threshold from before", before), ("threshold in hindsight", hindsight)):
        print("", *table(rows, title), sep="\n")


if __name__ == "__main__":
    main()
