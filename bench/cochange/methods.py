"""Other methods on the same history: plain counts, code-maat's degree, ROSE and TARMAQ.

A ranking takes a history and the files of a query and returns all candidates, best first, including dead files; a
scoring returns the score of each candidate. Each runs twice: `helped` by the product's rename tracking, without dead
files; and `as_is` like the original tool, by path, with dead files in its answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from bench.cochange.history import CODE_MAAT_LARGEST, DEAD, Histories, MemoryView

Ranking = Callable[[MemoryView, Sequence[int]], Sequence[int]]
Method = Callable[[Histories, Sequence[int]], Sequence[int]]
Scores = Mapping[int, float]
Scoring = Callable[[MemoryView, Sequence[int]], Scores]
ScoringMethod = Callable[[Histories, Sequence[int]], Scores]

TARMAQ_LARGEST = 300  # its authors excluded larger transactions
ROSE_LARGEST = 30
ROSE_CONFIDENCE = 0.1


def plain(history: MemoryView, files: Sequence[int]) -> list[int]:
    """Candidates by how many of the last 50 commits to each file changed them; of equals, the most recent first."""
    counts: Counter[int] = Counter()
    for number in sorted({n for file in files for n in history.of[file][-50:]}, reverse=True):
        counts.update(history.full[number])
    return [file for file, _ in counts.most_common() if file not in files]


def code_maat(history: MemoryView, files: Sequence[int]) -> list[int]:
    """Candidates by their highest degree of coupling with one of `files`, without code-maat's minimum thresholds."""
    best: dict[int, tuple[float, float]] = {}
    for file in files:
        counts: Counter[int] = Counter()
        for number in history.of[file]:
            if len(history.full[number]) <= CODE_MAAT_LARGEST:
                counts.update(history.full[number])
        for other, together in counts.items():
            average = (history.revisions[file] + history.revisions[other]) / 2
            value = 100 * together / average
            if other in files:
                continue
            best[other] = max(best.get(other, (0.0, 0.0)), (value, average))
    return sorted(best, key=lambda other: (best[other], -other), reverse=True)


def rose(history: MemoryView, files: Sequence[int]) -> list[int]:
    """Rules with all of `files` on the left side, by confidence, then support (Zimmermann et al., "Mining version
    histories to guide software changes", 2005); support 1 and confidence 0.1, as its authors chose for navigation."""
    sides = [set(history.of[file]) for file in files]
    numbers = [n for n in set.intersection(*sides) if len(history.full[n]) <= ROSE_LARGEST]
    counts: Counter[int] = Counter(other for number in numbers for other in history.full[number])
    kept = [f for f, count in counts.items() if count >= ROSE_CONFIDENCE * len(numbers) and f not in files]
    return sorted(kept, key=lambda file: (-counts[file], file))


def tarmaq(history: MemoryView, files: Sequence[int]) -> list[int]:
    """Rules from the transactions that share most files with the query, by support, then confidence (Rolfsnes et al.,
    "Generalizing the analysis of evolutionary coupling for software change impact analysis", 2016)."""
    overlap: Counter[int] = Counter(number for file in files for number in history.of[file])
    kept = {n: k for n, k in overlap.items() if k < len(history.full[n]) <= TARMAQ_LARGEST}
    largest = max(kept.values(), default=0)
    query = frozenset(files)
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


# Scorings, for warnings of a missing file

RECENT = 50  # commits to each file that plain counts uses
SUPPORT = 3  # minimum for a ROSE rule that warns of a missing change, as its authors chose


def plain_score(history: MemoryView, files: Sequence[int]) -> Scores:
    """For each candidate, the share of the last 50 commits to each of `files` that changed it."""
    numbers = {number for file in files for number in history.of[file][-RECENT:]}
    counts = Counter(file for number in numbers for file in history.full[number])
    return {file: count / len(numbers) for file, count in counts.items()}


def code_maat_score(history: MemoryView, files: Sequence[int]) -> Scores:
    """The highest degree of coupling (0 to 1) with one of `files`; code-maat's default minimums of 5 apply."""
    best: dict[int, float] = {}
    for file in files:
        own = _small(history, file)
        counts = Counter(other for number in own for other in history.full[number])
        for other, shared in counts.items():
            average = (len(own) + len(_small(history, other))) / 2 if shared >= 5 else 0
            if average >= 5:
                best[other] = max(best.get(other, 0.0), shared / average)
    return best


def rose_score(history: MemoryView, files: Sequence[int]) -> Scores:
    """The confidence of the rules with all of `files` on the left side and support 3 or more.

    Zimmermann et al., "Mining version histories to guide software changes", 2005: the scenario of error prevention.
    """
    numbers = set.intersection(*(set(_small(history, file)) for file in files))
    counts = Counter(file for number in numbers for file in history.full[number])
    return {file: count / len(numbers) for file, count in counts.items() if count >= SUPPORT}


def _small(history: MemoryView, file: int) -> list[int]:
    return [number for number in history.of[file] if len(history.full[number]) <= ROSE_LARGEST]


def helped(method: Ranking) -> Method:
    return lambda history, files: [file for file in method(history, files) if file in history.alive]


def as_is(method: Ranking) -> Method:
    def ask(history: Histories, files: Sequence[int]) -> list[int]:
        known = history.same_by_path(files)
        return [history.from_path(file) for file in method(history.by_path, known)] if known else []

    return ask


def helped_scores(scoring: Scoring) -> ScoringMethod:
    return lambda history, files: {
        file: score for file, score in scoring(history, files).items() if file in history.alive
    }


def as_is_scores(scoring: Scoring) -> ScoringMethod:
    """Dead files have scores too, under negative ids that are never right."""

    def ask(history: Histories, files: Sequence[int]) -> Scores:
        known = history.same_by_path(files)
        scores = scoring(history.by_path, known) if known else {}
        own = {file: history.from_path(file) for file in scores if file not in known}
        return {DEAD - file if own[file] == DEAD else own[file]: scores[file] for file in own}

    return ask


BASELINES: dict[str, Ranking] = {
    "plain counts": plain,
    "code-maat": code_maat,
    "ROSE": rose,
    "TARMAQ": tarmaq,
}
SCORINGS: dict[str, Scoring] = {
    "plain counts": plain_score, "code-maat": code_maat_score, "ROSE, support 3": rose_score,
}  # fmt: skip
SCORING_METHODS: dict[str, ScoringMethod] = {
    **{f"{name}, helped": helped_scores(scoring) for name, scoring in SCORINGS.items()},
    **{f"{name}, as is": as_is_scores(scoring) for name, scoring in SCORINGS.items()},
}
