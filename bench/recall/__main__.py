"""`python -m bench.recall --repo PATH...`: how well the memory is searched, compared with substrings and FTS5.

Memories are made from the history up to a commit, one for each file; the questions are later subjects without the
names of their files (later), half of the words of something that is remembered (item), and names of code by their
parts (name). `--speed N` measures instead how fast N memories answer.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from bench.options import REPOSITORIES, options
from bench.recall.corpus import Corpus, Question, load, write
from bench.recall.search import Method, filled, ours, plain, speed, substring

KINDS = {"later": "later subjects", "item": "known items", "name": "names by parts"}
OURS = "repoagent"
Figures = dict[str, tuple[float, float]]  # kind: (MRR, recall@5)


def main() -> None:
    args = options(
        "bench.recall", __doc__,
        repo=([Path], REPOSITORIES),
        questions=(150, "of each kind, at most"),
        seed=(1, ""),
        speed=(int, "measure how fast so many memories answer"),
    )  # fmt: skip
    if args.speed:
        speed([load(repository, args.questions, args.seed) for repository in args.repo], args.speed)
        return
    found: list[dict[str, Figures]] = []
    for repository in args.repo:
        corpus = load(repository, args.questions, args.seed)
        files = len({text.file for text in corpus.texts})
        began = time.process_time()
        found.append(_measured(corpus))
        spent = time.process_time() - began
        print(f"{corpus.name}: {files:,} memories, {len(corpus.texts):,} texts, {len(corpus.questions)} questions, "
              f"{spent:.0f} s\n{table([found[-1]])}", flush=True)  # fmt: skip
    print(f"mean of {len(found)} repositories (MRR / recall@5)\n{table(found)}")


def _measured(corpus: Corpus) -> dict[str, Figures]:
    with tempfile.TemporaryDirectory() as top, closing(filled(corpus)) as texts:
        root = Path(top) / ".repoagent"
        write(corpus, root)
        methods: dict[str, Method] = {
            OURS: ours(root), "substrings": substring(corpus), "plain FTS5": plain(texts),
        }  # fmt: skip
        return {name: figures(method, corpus.questions) for name, method in methods.items()}


def figures(method: Method, questions: Sequence[Question]) -> Figures:
    """The mean reciprocal rank of the first right file, and the share of the right ones among the first five."""
    each: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for question in questions:
        answer = method(question)
        rank = next((at for at, file in enumerate(answer, 1) if file in question.answers), None)
        among = len(question.answers.intersection(answer[:5])) / len(question.answers)
        each[question.kind].append((1 / rank if rank else 0.0, among))
    return {kind: _mean(pairs) for kind, pairs in each.items()}


def table(found: Sequence[Mapping[str, Figures]]) -> str:
    """A line for each method; behind each figure by how much ours is ahead."""
    lines = ["  " + " " * 26 + "".join(f"{title:26}" for title in KINDS.values()).rstrip()]
    means = {
        method: {kind: _mean([one[method][kind] for one in found if kind in one[method]]) for kind in KINDS}
        for method in found[0]
    }
    for method, mine in means.items():
        cells = []
        for kind in KINDS:
            first, second = mine[kind]
            best = means[OURS][kind]
            ahead = "" if method == OURS else f" x{_ratio(best[0], first)} x{_ratio(best[1], second)}"
            cells.append(f"{first:.3f} / {second:.3f}{ahead}".ljust(26))
        lines.append(f"  {method:26}{''.join(cells)}".rstrip())
    return "\n".join(lines)


def _mean(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    count = len(pairs) or 1
    return sum(first for first, _ in pairs) / count, sum(second for _, second in pairs) / count


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else "-"


if __name__ == "__main__":
    main()
