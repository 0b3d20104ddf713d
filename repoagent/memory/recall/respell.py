"""A misspelt word: where nothing has it, what is most like it among the words that are there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from repoagent.memory.recall.query import Query
from repoagent.memory.recall.rank import frequencies

_SHORTEST = 4  # letters: shorter words are like too many others
_ALIKE = 75  # of 100


def respelled(connection: sqlite3.Connection, query: Query) -> dict[str, str]:
    """The words of `query` that the index does not have, each with the one that is meant, where there is one."""
    often = frequencies(connection, query.words)
    unknown = [word for word in query.words if len(word) >= _SHORTEST and not often[word]]
    if not unknown:
        return {}
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)"
    )
    known = [word for (word,) in connection.execute("SELECT term FROM temp.vocabulary WHERE doc > 0")]
    return alike(unknown, known)


def alike(unknown: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """For each unknown word the known one that is most like it."""
    from rapidfuzz import fuzz, process

    candidates = [word for word in known if len(word) >= _SHORTEST - 1]
    found = {}
    for word in unknown:
        near = [one for one in candidates if abs(len(one) - len(word)) <= 2]
        best = process.extractOne(word, near, scorer=fuzz.ratio, score_cutoff=_ALIKE)
        if best is not None:
            found[word] = best[0]
    return found


def with_words(query: Query, instead: dict[str, str]) -> Query:
    """`query` with other words in place of some."""
    return query._replace(words=tuple(dict.fromkeys(instead.get(word, word) for word in query.words)))
