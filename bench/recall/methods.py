"""What the search is compared with: words as substrings, and FTS5 as it comes."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from datetime import date
from itertools import islice
from pathlib import Path

from bench.recall.corpus import Corpus, Question
from repoagent.memory.search.search import Hit, Search, search
from repoagent.storage.layout import Layout

SHOWN = 100  # files of an answer at most
Shown = dict[str, str]  # the files of an answer, best first, with the text that is shown of each; "" for none
Method = Callable[[Question], Shown]


def ours(root: Path) -> Method:
    """The product's own answer, at the day of the question. The text of a file is what stands in the plain file, on the
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
    """The first text of each file."""
    shown: Shown = {}
    for file, text in found:
        shown.setdefault(file, text)
    return dict(islice(shown.items(), SHOWN))
