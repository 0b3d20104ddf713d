"""What the search is compared with (words as substrings, FTS5 as it comes), and how fast many memories answer."""

from __future__ import annotations

import re
import sqlite3
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
from repoagent.memory.search.index import index_file, query_index, snapshot_files
from repoagent.memory.search.search import Search, answer, search
from repoagent.storage.layout import Layout

SHOWN = 100  # files of an answer at most
Method = Callable[[Question], list[str]]  # the files of an answer, best first


def ours(root: Path) -> Method:
    """The product's own answer, at the day of the question."""
    layout = Layout(root, root.parent / "git")

    def ask(question: Question) -> list[str]:
        how = Search(limit=200, today=date.fromisoformat(question.day))
        hits = search(layout, question.text, how=how)
        return list(dict.fromkeys(file for hit in hits for file in (hit.file, *hit.also)))[:SHOWN]

    return ask


def substring(corpus: Corpus) -> Method:
    """Files by how many words of the question are in what is remembered of them, the newest first."""
    whole: dict[str, str] = {}
    newest: dict[str, str] = {}
    for text in corpus.texts:
        whole[text.file] = f"{whole.get(text.file, text.file)}\n{text.text}"
        newest[text.file] = max(newest.get(text.file, ""), text.day)
    lower = {file: text.lower() for file, text in whole.items()}

    def ask(question: Question) -> list[str]:
        words = {word for word in re.findall(r"\w+", question.text.lower()) if len(word) > 2}
        scores = {file: sum(word in text for word in words) for file, text in lower.items()}
        fitting = [file for file, score in scores.items() if score]
        fitting.sort(key=lambda file: newest[file], reverse=True)
        return sorted(fitting, key=lambda file: -scores[file])[:SHOWN]

    return ask


def plain(connection: sqlite3.Connection) -> Method:
    """FTS5 with its own tokenizer and BM25 without weights."""

    def ask(question: Question) -> list[str]:
        words = dict.fromkeys(re.findall(r"[^\W_]+", question.text))
        asked = " OR ".join(f'"{word}"' for word in words)
        if not asked:
            return []
        query = "SELECT path FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 200"
        return list(dict.fromkeys(path for (path,) in connection.execute(query, (asked,))))[:SHOWN]

    return ask


def filled(corpus: Corpus) -> sqlite3.Connection:
    """The table of `plain`: a row for each text."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE plain USING fts5 (path, text)")
    connection.executemany(
        "INSERT INTO plain VALUES (?, ?)", [(text.file, text.text) for text in corpus.texts]
    )
    connection.execute("INSERT INTO plain (plain) VALUES ('optimize')")
    connection.commit()
    return connection


TIMES = 60  # questions


def speed(corpora: Sequence[Corpus], memories: int) -> None:
    """Print what `memories` memories take; files of all `corpora`, under other names where there are not so many."""
    corpus = _grown(corpora, memories)
    with tempfile.TemporaryDirectory() as top, closing(filled(corpus)) as connection:
        root = Path(top) / ".repoagent"
        write(corpus, root)
        layout = Layout(root, root.parent / "git")
        time.sleep(3)  # what was written just now is looked at once more
        built = _milliseconds(lambda: query_index(layout, snapshot_files(layout), lambda _: None, print))
        print(f"{memories:,} memories, {len(corpus.texts):,} texts, {_bytes(root / 'memory') / 1e6:.1f} MB")
        print(f"made in {built / 1e3:.1f} s, {index_file(layout).stat().st_size / 1e6:.1f} MB")
        parts: dict[str, Callable[[Question], object]] = {
            "plain FTS5": plain(connection),
            "a search": lambda question: answer(layout, question.text, Search()),
        }
        figures = _in_turns(parts, corpus.questions)
    for name, (middle, late) in figures.items():
        ratio = middle / figures["plain FTS5"][0]
        print(f"  {name:12} {middle:7.1f} ms, 95 % in {late:7.1f} ms, {ratio:.2f} x plain FTS5")


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
