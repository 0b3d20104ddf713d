"""What others would warn of: plain counts, code-maat's degree and ROSE's rules, each with a score for a threshold.

A method takes the history, the changed files and who changed them. It gives every candidate, dead ones too, with its
score. Each is asked twice: with the product's identity of files through renames and no dead answers (`helped`), and
as its tool really is (`as_is`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from bench.cochange.as_is import DEAD, Histories
from bench.cochange.memory import MemoryView

Scores = Mapping[int, float]
Rules = Callable[[MemoryView, Sequence[int], int | None], Scores]
Method = Callable[[Histories, Sequence[int], int | None], Scores]

RECENT = 50  # commits of each file that plain counts looks at
LARGEST = 30  # files of a commit: code-maat's --max-changeset-size, and ROSE's limit
SUPPORT = 3  # of a rule of ROSE that warns of a missing change, as its authors chose


def plain(history: MemoryView, asked: Sequence[int], _author: int | None) -> Scores:
    """In which share of the last 50 commits of the files a candidate was."""
    numbers = {number for file in asked for number in history.of[file][-RECENT:]}
    counts = Counter(file for number in numbers for file in history.full[number])
    return {file: count / len(numbers) for file, count in counts.items()}


def code_maat(history: MemoryView, asked: Sequence[int], _author: int | None) -> Scores:
    """The highest degree of coupling with one of the files, 0 to 1; 5 revisions and 5 shared ones, its defaults."""
    best: dict[int, float] = {}
    for file in asked:
        own = _small(history, file)
        counts = Counter(other for number in own for other in history.full[number])
        for other, shared in counts.items():
            average = (len(own) + len(_small(history, other))) / 2 if shared >= 5 else 0
            if average >= 5:
                best[other] = max(best.get(other, 0.0), shared / average)
    return best


def rose(history: MemoryView, asked: Sequence[int], _author: int | None) -> Scores:
    """Confidence of the rules with all files on the left side and support 3.

    Zimmermann et al., "Mining version histories to guide software changes", 2005: the scenario of error prevention.
    """
    numbers = set.intersection(*(set(_small(history, file)) for file in asked))
    counts = Counter(file for number in numbers for file in history.full[number])
    return {file: count / len(numbers) for file, count in counts.items() if count >= SUPPORT}


def _small(history: MemoryView, file: int) -> list[int]:
    return [number for number in history.of[file] if len(history.full[number]) <= LARGEST]


def helped(rules: Rules) -> Method:
    """With identity through renames, without dead files."""

    def ask(history: Histories, asked: Sequence[int], author: int | None) -> Scores:
        scores = rules(history, asked, author)
        return {file: score for file, score in scores.items() if file in history.alive}

    return ask


def as_is(rules: Rules) -> Method:
    """By paths alone; a dead file is warned of too, and is wrong."""

    def ask(history: Histories, asked: Sequence[int], author: int | None) -> Scores:
        known = history.same_by_path(asked)
        if not known:
            return {}
        said = {
            file: score for file, score in rules(history.by_path, known, author).items() if file not in known
        }
        own = {file: history.from_path(file) for file in said}
        return {DEAD - file if own[file] == DEAD else own[file]: score for file, score in said.items()}

    return ask


BASELINES: dict[str, Rules] = {"plain counts": plain, "code-maat": code_maat, "ROSE, support 3": rose}
METHODS: dict[str, Method] = {
    **{f"{name}, helped": helped(rules) for name, rules in BASELINES.items()},
    **{f"{name}, as is": as_is(rules) for name, rules in BASELINES.items()},
}
