"""What others do, on the same history: plain counts, code-maat's degree, ROSE and TARMAQ.

Each takes the history and the asked files, and gives all candidates, best first, dead ones too. Whether they know
renames and what is alive is a matter of the history that they are given (`as_is`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.cochange.memory import CODE_MAAT_LARGEST, MemoryView

TARMAQ_LARGEST = 300  # larger transactions were left out by its authors
ROSE_LARGEST = 30
ROSE_CONFIDENCE = 0.1


def plain(history: MemoryView, asked: Sequence[int]) -> list[int]:
    """How often in the last 50 commits of each asked file; among equals, who was seen last."""
    counts: Counter[int] = Counter()
    for number in sorted({n for file in asked for n in history.of[file][-50:]}, reverse=True):
        counts.update(history.full[number])
    return [file for file, _ in counts.most_common() if file not in asked]


def code_maat(history: MemoryView, asked: Sequence[int]) -> list[int]:
    """Degree of coupling without its lower thresholds."""
    return _degree(history, asked, 1, 1, 0)


def code_maat_usual(history: MemoryView, asked: Sequence[int]) -> list[int]:
    """The same with its defaults: 5 revisions, 5 shared revisions, a degree of 30."""
    return _degree(history, asked, 5, 5, 30)


def _degree(history: MemoryView, asked: Sequence[int], revisions: int, shared: int, degree: int) -> list[int]:
    best: dict[int, tuple[float, float]] = {}
    for file in asked:
        counts: Counter[int] = Counter()
        for number in history.of[file]:
            if len(history.full[number]) <= CODE_MAAT_LARGEST:
                counts.update(history.full[number])
        for other, together in counts.items():
            average = (history.revisions[file] + history.revisions[other]) / 2
            value = 100 * together / average
            if other in asked or together < shared or average < revisions or value < degree:
                continue
            best[other] = max(best.get(other, (0.0, 0.0)), (value, average))
    return sorted(best, key=lambda other: (best[other], -other), reverse=True)


def rose(history: MemoryView, asked: Sequence[int]) -> list[int]:
    """Rules whose left side is all that was asked, by confidence, then support (Zimmermann et al., "Mining version
    histories to guide software changes", 2005); support 1 and confidence 0.1 as its authors chose for navigation."""
    sides = [set(history.of[file]) for file in asked]
    numbers = [n for n in set.intersection(*sides) if len(history.full[n]) <= ROSE_LARGEST]
    counts: Counter[int] = Counter(other for number in numbers for other in history.full[number])
    kept = [f for f, count in counts.items() if count >= ROSE_CONFIDENCE * len(numbers) and f not in asked]
    return sorted(kept, key=lambda file: (-counts[file], file))


def tarmaq(history: MemoryView, asked: Sequence[int]) -> list[int]:
    """Rules from the transactions that share most with what was asked, by support, then confidence (Rolfsnes et al.,
    "Generalizing the analysis of evolutionary coupling for software change impact analysis", 2016)."""
    overlap: Counter[int] = Counter(number for file in asked for number in history.of[file])
    kept = {n: k for n, k in overlap.items() if k < len(history.full[n]) <= TARMAQ_LARGEST}
    largest = max(kept.values(), default=0)
    query = frozenset(asked)
    support: Counter[tuple[frozenset[int], int]] = Counter()
    left: Counter[frozenset[int]] = Counter()
    for number in (n for n, k in kept.items() if k == largest):
        members = history.full[number]
        side = query.intersection(members)
        left[side] += 1
        support.update((side, other) for other in members if other not in query)
    best: dict[int, tuple[float, float]] = {}
    for (side, other), count in support.items():
        best[other] = max(best.get(other, (0.0, 0.0)), (count, count / left[side]))
    return sorted(best, key=lambda other: (best[other], -other), reverse=True)


BASELINES = {
    "plain counts": plain,
    "code-maat": code_maat,
    "code-maat, its thresholds": code_maat_usual,
    "ROSE": rose,
    "TARMAQ": tarmaq,
}
