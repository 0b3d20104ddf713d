"""How surely files change with others, out of the commits that they share: directly, and by way of their partners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from math import sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repoagent.history.cochange.view import Commit, View

SMALLEST, LARGEST = 2, 100  # files of a commit that says something about what belongs together
HALF = 3  # after so many commits a commit weighs half
PARTNERS, PARTNER_COMMITS, PARTNER_HALF = 12, 20, 25
NEAR, NEAR_COMMITS = 5, 10  # the same for work that is still going on, counted in commits of all files
LATEST, LATEST_HALF = 20, 5
OWN = 3.0  # so many times as much for a commit of who is at work
SIBLINGS, SIBLING_COMMITS, SIBLING_HALF = 8, 20, 10


def direct(
    history: Sequence[Commit], asked: frozenset[int], newest: int
) -> tuple[dict[int, float], dict[int, float]]:
    """What the commits of an asked file, newest first, say of each other file: its share of them, 0 to 1, and how much
    it is part of the work that is going on; `newest` is the number of the newest commit of all.

    A commit weighs less with each newer one of this file, and is shared out among its further files. One that touches
    several of the asked files weighs as many times.
    """
    share: defaultdict[int, float] = defaultdict(float)
    current: defaultdict[int, float] = defaultdict(float)
    total, place = 0.0, 0
    for commit in history:
        overlap = len(asked.intersection(commit.files)) if len(asked) > 1 else 1
        others = commit.size - overlap
        if commit.size > LARGEST or others < 1:
            continue
        weight = overlap / ((1 + place / HALF) * others)
        total += weight
        for file in commit.files:
            share[file] += weight
        if place < NEAR_COMMITS:
            weight = 1 / ((1 + (newest - commit.number) / NEAR) * sqrt(others))
            for file in commit.files:
                current[file] += weight
        place += 1
    for file in asked:
        share.pop(file, None)
        current.pop(file, None)
    return {file: weight / total for file, weight in share.items()}, dict(current)


def together(history: Sequence[Commit], files: Iterable[int]) -> dict[int, list[Commit]]:
    """The commits of a history with each of these files, newest first."""
    found: dict[int, list[Commit]] = {file: [] for file in files}
    wanted = frozenset(found)
    for commit in history:
        for file in wanted.intersection(commit.files):
            found[file].append(commit)
    return found


def through(
    view: View, share: Mapping[int, float], alive: Iterable[int], asked: frozenset[int]
) -> dict[int, float]:
    """The second step of a random walk: what changes with the best partners (of those alive) of the asked files."""
    partners = nsmallest(PARTNERS, alive, key=lambda file: (-share[file], file))
    found = view.many(partners, PARTNER_COMMITS) if partners else {}
    return _walk(((share[file], file, history) for file, history in found.items()), PARTNER_HALF, asked)


def beside(view: View, siblings: Sequence[int], asked: frozenset[int]) -> dict[int, float]:
    """What changes with the last changed files of the same folder: the best guess for a file without a past."""
    found = view.many(siblings[:SIBLINGS], SIBLING_COMMITS) if siblings else {}
    return _walk(((1 / len(found), file, history) for file, history in found.items()), SIBLING_HALF, asked)


def _walk(
    starts: Iterable[tuple[float, int, Sequence[Commit]]], half: float, asked: frozenset[int]
) -> dict[int, float]:
    """One step from files with these probabilities, along the commits of each."""
    found: defaultdict[int, float] = defaultdict(float)
    for start, own, history in starts:
        weights = [
            (1 / ((1 + place / half) * sqrt(commit.size - 1)), commit.files)
            for place, commit in enumerate(c for c in history if SMALLEST <= c.size <= LARGEST)
        ]
        total = sum(weight for weight, _ in weights)
        for weight, files in weights:
            step = start * weight / total
            for file in files:
                if file != own:
                    found[file] += step
    for file in asked:
        found.pop(file, None)
    return dict(found)


def recent(latest: Sequence[Commit], asked: frozenset[int], author: int | None) -> dict[int, float]:
    """How much each file is part of the newest commits of all, those of `author` above all: work comes in series."""
    found: defaultdict[int, float] = defaultdict(float)
    for place, commit in enumerate(latest[:LATEST]):
        if commit.size <= LARGEST:
            own = OWN if commit.author == author else 1.0
            weight = own / ((1 + place / LATEST_HALF) * sqrt(max(commit.size, 1)))
            for file in commit.files:
                found[file] += weight
    for file in asked:
        found.pop(file, None)
    return dict(found)
