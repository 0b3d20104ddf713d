"""What the search is compared with: words as substrings, and FTS5 as it comes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path

from bench.recall.corpus import Corpus, Question
from repoagent.memory.recall import Search, search
from repoagent.store import Layout

SHOWN = 100  # files of an answer at most
Method = Callable[[Question], list[str]]


def ours(root: Path) -> Method:
    """The product's own answer, at the day of the question."""
    layout = Layout(root, root.parent / "git")

    def ask(question: Question) -> list[str]:
        how = Search(limit=200, today=date.fromisoformat(question.day))
        hits = search(layout, question.text, how=how)
        return _files(file for hit in hits for file in (hit.file, *hit.also))

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


def bare(connection: sqlite3.Connection) -> Method:
    """FTS5 with its own tokenizer and BM25 without weights."""

    def ask(question: Question) -> list[str]:
        words = dict.fromkeys(re.findall(r"[^\W_]+", question.text))
        asked = " OR ".join(f'"{word}"' for word in words)
        if not asked:
            return []
        found = connection.execute(
            "SELECT path FROM bare WHERE bare MATCH ? ORDER BY rank LIMIT 200", (asked,)
        )
        return _files(path for (path,) in found)

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


def _files(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))[:SHOWN]
