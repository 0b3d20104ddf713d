"""`python -m bench.recall --repo PATH...`: how well the memory is searched, compared with substrings and FTS5.

Memories are made from the history up to a commit, one for each file; the questions are later subjects without the
names of their files (later), half of the words of something that is remembered (item), a third of them among other
words (vague), and names of code by their parts (name). Where the first file is right and several texts are remembered
of it, the text that is shown of it is judged too: it has to be the one that was asked for. `--speed N` measures
instead how fast N memories answer.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from bench.options import REPOSITORIES, options
from bench.recall.corpus import Corpus, Question, load, write
from bench.recall.search import Method, bare, filled, ours, speed, substring

KINDS = {"later": "later subjects", "item": "known items", "vague": "vaguely known", "name": "names by parts"}
OURS = "repoagent"
Figures = dict[str, tuple[float, float]]  # kind: (MRR, recall@5)
Passages = dict[str, tuple[int, int]]  # kind: first files that are right, and of these with the right text


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
    shown: dict[str, list[Passages]] = defaultdict(list)
    for repository in args.repo:
        corpus = load(repository, args.questions, args.seed)
        files = len({text.file for text in corpus.texts})
        began = time.process_time()
        measured = _measured(corpus)
        found.append({name: one for name, (one, _) in measured.items()})
        for name, (_, passages) in measured.items():
            shown[name].append(passages)
        spent = time.process_time() - began
        print(f"{corpus.name}: {files:,} memories, {len(corpus.texts):,} texts, {len(corpus.questions)} questions, "
              f"{spent:.0f} s\n{table([found[-1]])}", flush=True)  # fmt: skip
    print(f"mean of {len(found)} repositories (MRR / recall@5)\n{table(found)}")
    print(f"the right text of a right first file\n{texts_table(shown)}")


def _measured(corpus: Corpus) -> dict[str, tuple[Figures, Passages]]:
    with (
        tempfile.TemporaryDirectory() as top,
        closing(filled(corpus, whole_files=False)) as texts,
        closing(filled(corpus, whole_files=True)) as files,
    ):
        root = Path(top) / ".repoagent"
        write(corpus, root)
        methods: dict[str, Method] = {
            OURS: ours(root),
            "substrings": substring(corpus),
            "bare FTS5, a row a text": bare(texts),
            "bare FTS5, a row a file": bare(files, texts=False),
        }
        kept = Counter(text.file for text in corpus.texts)
        several = frozenset(file for file, count in kept.items() if count > 1)
        return {name: figures(method, corpus.questions, several) for name, method in methods.items()}


def figures(
    method: Method, questions: Sequence[Question], several: frozenset[str]
) -> tuple[Figures, Passages]:
    """The mean reciprocal rank of the first right file, and the share of the right ones among the first five. Then how
    often the first file is right, and how often with the right text; only of the files `several` texts are of."""
    each: dict[str, list[tuple[float, float]]] = defaultdict(list)
    passages: Passages = {}
    for question in questions:
        shown = method(question)
        answer = list(shown)
        if question.passages and answer and answer[0] in question.answers & several:
            first, right = passages.get(question.kind, (0, 0))
            fits = any(text in shown[answer[0]] for text in question.passages)
            passages[question.kind] = (first + 1, right + fits)
        rank = next((at for at, file in enumerate(answer, 1) if file in question.answers), None)
        among = len(question.answers.intersection(answer[:5])) / len(question.answers)
        each[question.kind].append((1 / rank if rank else 0.0, among))
    return {kind: _mean(pairs) for kind, pairs in each.items()}, passages


def texts_table(shown: Mapping[str, Sequence[Passages]]) -> str:
    """A line for each method that shows a text of a file: how many are right, of how many."""
    lines = []
    for method, each in shown.items():
        cells = []
        for kind, title in KINDS.items():
            pairs = [one[kind] for one in each if kind in one]
            first, right = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
            if first:
                cells.append(f"{title} {right} of {first} ({right / first:.1%})")
        lines.append(f"  {method:26}{', '.join(cells)}")
    return "\n".join(lines)


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
