"""Temporal replay: predict the files of each commit in the last fifth of a history from earlier commits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.cochange.history import Change, Histories, MemoryView
from bench.cochange.methods import Method

SHOWN = 20
LAST = 0.2
SMALLEST, LARGEST = 2, 30  # files of an eligible commit


@dataclass
class Figures:
    queries: int = 0
    precision: float = 0.0
    rank: float = 0.0
    recall: float = 0.0
    answered: int = 0

    def add(self, ranked: Sequence[int], truth: frozenset[int]) -> None:
        """Add a query with the answer `ranked`, best first; dead files only take up ranks."""
        hits, precision, first = 0, 0.0, 0
        for rank, file in enumerate(ranked[:SHOWN], 1):
            if file in truth:
                hits += 1
                precision += hits / rank
                first = first or rank
        self.queries += 1
        self.precision += precision / min(len(truth), SHOWN)
        self.rank += 1 / first if first else 0.0
        self.recall += len(truth.intersection(ranked[:10])) / len(truth)
        self.answered += bool(ranked)

    def means(self) -> dict[str, float]:
        """MAP, MRR, recall@10 and coverage, each 0 to 1."""
        n = max(self.queries, 1)
        sums = {"MAP": self.precision, "MRR": self.rank, "R@10": self.recall, "coverage": self.answered}
        return {name: value / n for name, value in sums.items()}


@dataclass(frozen=True)
class Query:
    """One or more files of commit `number`; `truth` has its other files that existed before it."""

    number: int
    files: tuple[int, ...]
    truth: frozenset[int]


def replay(
    changes: Sequence[Change], methods: Mapping[str, Method], queries: Sequence[Query]
) -> dict[str, Figures]:
    """The figures of each method over these queries, answered from the commits before each."""
    by_commit: dict[int, list[Query]] = {}
    for query in queries:
        by_commit.setdefault(query.number, []).append(query)
    figures = {name: Figures() for name in methods}
    history = Histories()
    for number, change in enumerate(changes):
        for query in by_commit.get(number, ()):
            for name, method in methods.items():
                figures[name].add(method(history, query.files), query.truth)
        history.add(change)
    return figures


def sample(changes: Sequence[Change], queries: int, seed: int) -> list[Query]:
    """Up to `queries` queries from random commits of the last fifth, each with one random file of its commit."""
    source = random.Random(seed)
    pairs = [(number, existed, source.choice(existed)) for number, existed in _eligible(changes)]
    drawn = sorted(source.sample(pairs, min(queries, len(pairs))))
    return [Query(number, (file,), frozenset(existed) - {file}) for number, existed, file in drawn]


def _eligible(changes: Sequence[Change]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The numbers of the eligible commits in the last fifth, and their files that existed before."""
    history = MemoryView()
    start = int(len(changes) * (1 - LAST))
    for number, change in enumerate(changes):
        eligible = number >= start and SMALLEST <= len(change.entries) <= LARGEST
        known = set(history.alive) if eligible else set()
        history.add(change)
        existed = tuple(file for file in history.full[number] if file in known)
        if len(existed) > 1:
            yield number, existed
