"""What the search is compared with (words as substrings, FTS5 as it comes), and how fast many memories answer."""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

from bench.recall.corpus import Corpus, Question, write
from repoagent.memory.search.index import (
    index_file,
    open_index,
    query_index,
    snapshot_files,
)
from repoagent.memory.search.ranking import Filter, parse, ranked
from repoagent.memory.search.search import Hit, Search, answer, search
from repoagent.storage.layout import Layout

SHOWN = 100  # files of an answer at most
Shown = dict[str, str]  # the files of an answer, best first, with the text that is shown of each; "" for none
Method = Callable[[Question], Shown]


def ours(root: Path) -> Method:
    """The product's own answer, at the day of the question. The text of a file is what the plain file has on the
    line that the answer names."""
    layout = Layout(root, root.parent / "git")

    def ask(question: Question) -> Shown:
        how = Search(limit=200, today=date.fromisoformat(question.day))
        hits = search(layout, question.text, how=how)
        return _first((file, _plain(hit)) for hit in hits for file in (hit.file, *hit.also))

    return ask


def substring(corpus: Corpus) -> Method:
    """Files by how many words of the question are in what is remembered of them, the newest first; of each the text
    with the most of them."""
    whole: dict[str, str] = {}
    each: dict[str, list[str]] = {}
    newest: dict[str, str] = {}
    for text in corpus.texts:
        whole[text.file] = f"{whole.get(text.file, text.file)}\n{text.text}"
        newest[text.file] = max(newest.get(text.file, ""), text.day)
        each.setdefault(text.file, []).append(text.text)
    lower = {file: text.lower() for file, text in whole.items()}

    def ask(question: Question) -> Shown:
        words = {word for word in re.findall(r"\w+", question.text.lower()) if len(word) > 2}
        scores = {file: sum(word in text for word in words) for file, text in lower.items()}
        fitting = [file for file, score in scores.items() if score]
        fitting.sort(key=lambda file: newest[file], reverse=True)
        files = sorted(fitting, key=lambda file: -scores[file])[:SHOWN]
        return {
            file: max(each[file], key=lambda text: sum(word in text.lower() for word in words))
            for file in files
        }

    return ask


def bare(connection: sqlite3.Connection, *, texts: bool = True) -> Method:
    """FTS5 with its own tokenizer and BM25 without weights; `texts`: a row is a text that can be shown."""

    def ask(question: Question) -> Shown:
        words = dict.fromkeys(re.findall(r"[^\W_]+", question.text))
        asked = " OR ".join(f'"{word}"' for word in words)
        if not asked:
            return {}
        found = connection.execute(
            "SELECT path, text FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT 200", (asked,)
        )
        return _first((path, text if texts else "") for path, text in found)

    return ask


def filled(corpus: Corpus, *, whole_files: bool) -> sqlite3.Connection:
    """The table of `bare`: a row for each text, or for each file."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE bare USING fts5 (path, text)")
    rows = [(text.file, text.text) for text in corpus.texts]
    if whole_files:
        joined: dict[str, list[str]] = {}
        for file, text in rows:
            joined.setdefault(file, []).append(text)
        rows = [(file, "\n".join(texts)) for file, texts in joined.items()]
    connection.executemany("INSERT INTO bare VALUES (?, ?)", rows)
    connection.execute("INSERT INTO bare (bare) VALUES ('optimize')")
    connection.commit()
    return connection


def _plain(hit: Hit) -> str:
    line = hit.path.read_text(errors="replace").split("\n")[hit.line - 1]
    return str(json.loads(line)["request"]) if hit.kind == "edit" else line


def _first(found: Iterable[tuple[str, str]]) -> Shown:
    shown: Shown = {}
    for file, text in found:
        shown.setdefault(file, text)
    return dict(islice(shown.items(), SHOWN))


TIMES = 60  # questions


def speed(corpora: Sequence[Corpus], memories: int) -> None:
    """Print what `memories` memories take; files of all `corpora`, under other names where there are not so many."""
    corpus = _grown(corpora, memories)
    with tempfile.TemporaryDirectory() as top, closing(filled(corpus, whole_files=False)) as connection:
        root = Path(top) / ".repoagent"
        write(corpus, root)
        layout = Layout(root, root.parent / "git")
        time.sleep(3)  # what was written just now is looked at once more
        built = _milliseconds(lambda: query_index(layout, snapshot_files(layout), lambda _: None, print))
        print(f"{memories:,} memories, {len(corpus.texts):,} texts, {_bytes(root / 'memory') / 1e6:.1f} MB")
        print(f"made in {built / 1e3:.1f} s, {index_file(layout).stat().st_size / 1e6:.1f} MB")
        plain = bare(connection)
        with closing(open_index(index_file(layout), print)) as index:
            parts: dict[str, Callable[[Question], object]] = {
                "bare FTS5": plain,
                "the index asked": lambda q: ranked(
                    index, parse(q.text), Filter(), date.fromisoformat(q.day)
                ),
                "looking at all files": lambda q: snapshot_files(layout),
                "a whole search": lambda q: answer(layout, q.text, Search()),
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
