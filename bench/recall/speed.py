"""How fast many memories answer: the product's search in its parts, beside bare FTS5 on the same texts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median

from bench.recall.corpus import Corpus, Question, write
from bench.recall.methods import bare, filled
from repoagent.memory.search.index import (
    index_file,
    open_index,
    query_index,
    snapshot_files,
    snapshot_folders,
    take_snapshots,
)
from repoagent.memory.search.ranking import Filter, parse, ranked
from repoagent.memory.search.search import Search, answer
from repoagent.storage.layout import Layout

TIMES = 60  # questions


def speed(corpora: Sequence[Corpus], memories: int) -> None:
    """Print what `memories` memories take; files of all `corpora`, under other names where there are not so many."""
    corpus = _grown(corpora, memories)
    with tempfile.TemporaryDirectory() as top, closing(filled(corpus, whole_files=False)) as connection:
        root = Path(top) / ".repoagent"
        write(corpus, root)
        layout = Layout(root, root.parent / "git")
        time.sleep(3)  # what was written just now is looked at once more
        built = _milliseconds(lambda: query_index(layout, take_snapshots(layout), lambda _: None, print))
        print(f"{memories:,} memories, {len(corpus.texts):,} texts, {_bytes(root / 'memory') / 1e6:.1f} MB")
        print(f"made in {built / 1e3:.1f} s, {index_file(layout).stat().st_size / 1e6:.1f} MB")
        plain = bare(connection)
        with closing(open_index(index_file(layout))) as index:
            parts: dict[str, Callable[[Question], object]] = {
                "bare FTS5": plain,
                "the index asked": lambda q: ranked(
                    index, parse(q.text), Filter(), date.fromisoformat(q.day)
                ),
                "looking at all files": lambda q: snapshot_files(layout),
                "looking at the folders": lambda q: snapshot_folders(layout),
                "a whole search": lambda q: answer(layout, q.text, Search(patient=False)),
            }
            figures = _in_turns(parts, corpus.questions)
    for name, (middle, late) in figures.items():
        ratio = middle / figures["bare FTS5"][0]
        print(f"  {name:36} {middle:7.1f} ms, 95 % in {late:7.1f} ms, {ratio:.2f} x bare FTS5")


def _in_turns(
    parts: dict[str, Callable[[Question], object]], questions: Sequence[Question]
) -> dict[str, tuple[float, float]]:
    """CPU time of each, median and 95th percentile, in milliseconds; one after the other on the same questions."""
    taken: dict[str, list[float]] = {name: [] for name in parts}
    later = [question for question in questions if question.kind == "later"]
    for question in later[: TIMES + 3]:
        for name, part in parts.items():
            taken[name].append(_milliseconds(partial(part, question)))
    warm = {name: sorted(times[3:]) for name, times in taken.items()}
    return {name: (median(times), times[len(times) * 95 // 100]) for name, times in warm.items()}


def _milliseconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1e3


def _grown(corpora: Sequence[Corpus], memories: int) -> Corpus:
    by_file: dict[str, list[int]] = {}
    texts = [replace(text, file=f"{one.name}/{text.file}") for one in corpora for text in one.texts]
    for at, text in enumerate(texts):
        by_file.setdefault(text.file, []).append(at)
    grown = []
    for number, file in zip(range(memories), cycle(by_file), strict=False):
        again = number // len(by_file)
        name = file if not again else f"copy{again}/{file}"
        grown += [replace(texts[at], file=name) for at in by_file[file]]
    questions = tuple(question for one in corpora for question in one.questions)
    return Corpus("all", tuple(grown), questions)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
