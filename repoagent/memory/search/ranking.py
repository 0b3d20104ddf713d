"""Turn query text into an FTS5 query, and rank passages: BM25 with column weights, then the file and age of a passage.

Any text is a query; quotation marks for phrases are the only syntax.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import pairwise
from typing import NamedTuple

from repoagent.memory.search.index import is_archived, packed, passage_of, unpacked
from repoagent.memory.search.passages import Kind, Passage
from repoagent.memory.search.tokenize import LONGEST, is_common, tokens, words_in, words_of

_MOST = 48  # different words of a query
_QUOTED = re.compile('"([^"]+)"|“([^”]+)”')


class Query(NamedTuple):
    """`words` are stems, `common` those that say nothing, apart from them, and `raw` both as they are written; `names`
    are the compound names in it, `joined` those that its neighboring words may be; each of `phrases` is words that
    must stand there in this order."""

    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    common: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()


def parse(text: str) -> Query:
    """The query in `text`; without words where there is nothing to search for."""
    phrases = [words_of(one or other).parts for one, other in _QUOTED.findall(text)]
    found = [token[0] for token in tokens(text)][: 4 * _MOST]
    telling = [token for token in found if not is_common(token)] or found
    words = [word for token in telling for word in words_in(token).parts]
    common = [word for token in found if token not in telling for word in words_in(token).parts]
    names = [name for token in found for name in words_in(token).names]
    plain = [token.lower() if not words_in(token).names else "" for token in found]
    pairs = pairwise(plain)
    joined = ["".join(pair)[:LONGEST] for pair in pairs if all(pair) and not all(map(is_common, pair))]
    return Query(
        tuple(dict.fromkeys(words))[:_MOST],
        tuple(dict.fromkeys(names))[:_MOST],
        tuple(dict.fromkeys(joined))[:_MOST],
        tuple(phrase for phrase in phrases if len(phrase) > 1),
        tuple(dict.fromkeys(word for word in common if word not in words))[:_MOST],
        tuple(dict.fromkeys(word for token in found for word in words_in(token).raw))[:_MOST],
    )


def match(query: Query) -> str:
    """The query in the language of FTS5: any of its words, and all of its phrases."""
    any_of = [_quoted(word) for word in query.words]
    any_of += [f"names : {_quoted(name)}" for name in (*query.names, *query.joined)]
    any_of += [f"path : {_quoted(name)}" for name in query.names]
    either = " OR ".join(any_of)
    needed = [_quoted(" ".join(phrase)) for phrase in query.phrases]
    return " AND ".join([*needed, f"({either})"])


def _quoted(words: str) -> str:
    return f'"{words}"'  # they are letters and digits only


class Weights(NamedTuple):
    """Of the columns; then how much it counts that many of the query's words are there (a power of their share), and of
    the common ones among them; by how much the other passages of a file that fit count for it; by how much what is
    new counts more, and after how many days half of that; how much what had to make room counts."""

    title: float = 2.0
    body: float = 1.0
    names: float = 2.0
    path: float = 1.5
    coverage: float = 3.0
    common: float = 0.3
    together: float = 0.5
    recency: float = 0.2
    half_life: float = 180.0
    archived: float = 0.5


WEIGHTS = Weights()
_LOOKED_AT = 200  # passages, of which the best are ranked
_FREQUENT = 4_000  # passages: a word that more of them have is left out
_FEWEST = 3  # words that are asked for in any case


class Ranked(NamedTuple):
    """A passage, the path of its plain file below the root, and its score (the higher the better)."""

    passage: Passage
    path: str
    score: float


class Filter(NamedTuple):
    """What is searched: passages of these kinds, about these files or files in these folders; () is all. `without` is
    a plain file below the root that is left out."""

    kinds: Sequence[Kind] = ()
    files: Sequence[str] = ()
    without: str = ""


def ranked(
    connection: sqlite3.Connection, query: Query, only: Filter, today: date, weights: Weights = WEIGHTS
) -> list[Ranked]:
    """The passages that fit, best first; a few hundred at most."""
    if not query.words:
        return []
    telling = query._replace(words=_telling(connection, query.words))
    rank = f"bm25({weights.title}, {weights.body}, {weights.names}, {weights.path})"
    where, values = _filter(only)
    best = connection.execute(
        f"SELECT rowid, rank FROM words WHERE words MATCH ? AND rank MATCH ? {where} ORDER BY rank LIMIT ?",
        (match(telling), rank, *values, _LOOKED_AT),
    ).fetchall()
    scores = {number: -score for number, score in best}
    holes = ",".join("?" * len(scores))
    rows = connection.execute(
        "SELECT p.id, s.path, p.kind, p.file, p.date, p.line, p.text, p.title, p.name, p.blob "
        f"FROM passage p JOIN source s ON s.id = p.source WHERE p.id IN ({holes})",
        tuple(scores),
    )
    found = [Ranked(passage_of(fields), unpacked(path), scores[number]) for number, path, *fields in rows]
    return _weighed(found, query, today, weights)


def frequencies(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """In how many passages each word is."""
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)"
    )
    asked = "SELECT doc FROM temp.vocabulary WHERE term = ?"
    return {word: (connection.execute(asked, (word,)).fetchone() or (0,))[0] for word in words}


def _telling(connection: sqlite3.Connection, words: Sequence[str]) -> tuple[str, ...]:
    """`words` without those that so many passages have that they would take most of the time and say the least: as
    long as there are rarer ones, which then choose the passages."""
    often = frequencies(connection, words)
    rarest = sorted((word for word in words if often[word]), key=lambda word: often[word])
    kept = {word for at, word in enumerate(rarest) if at < _FEWEST or often[word] <= _FREQUENT}
    return tuple(word for word in words if word in kept) or tuple(words)


def _weighed(found: list[Ranked], query: Query, today: date, weights: Weights = WEIGHTS) -> list[Ranked]:
    """`found` by their score, their age, how much of the query they have, and what else of the same file fits.

    What else fits of a file counts for the one of its passages that answers the query best, so that the others leave
    room for other files. That passage is chosen by its own score: by what the others add, the worst would often win.
    """

    def score(one: Ranked) -> float:
        """By age, and lower for archived ones."""
        return (
            one.score * _recency(one, today, weights) * (weights.archived if is_archived(one.path) else 1.0)
        )

    by_file: dict[str, list[Ranked]] = defaultdict(list)
    for one in sorted((one._replace(score=score(one)) for one in found), key=_order):
        by_file[one.passage.file or one.path].append(one)
    scored = []
    for passages in by_file.values():
        support = sum(one.score * 0.5**number for number, one in enumerate(passages))
        own = [one.score * _coverage(one, query, weights) for one in passages]
        wholes = [
            mine + weights.together * (support - one.score) for mine, one in zip(own, passages, strict=True)
        ]
        best = own.index(max(own))
        scored += [
            one._replace(score=max(wholes) if number == best else own[number])
            for number, one in enumerate(passages)
        ]
    return sorted(scored, key=_order)


def _order(one: Ranked) -> tuple[float, str, int, str]:
    return -one.score, one.path, one.passage.line, one.passage.text


def _coverage(one: Ranked, query: Query, weights: Weights) -> float:
    """How much of the query is there, 0 to 1: its words, and these as they are written."""
    words = words_of(one.passage.text)
    parts, raw = set(words.parts), set(words.raw)
    found = len(parts.intersection(query.words)) + weights.common * len(parts.intersection(query.common))
    stems = found / (len(query.words) + weights.common * len(query.common))
    exact = len(raw.intersection(query.raw)) / len(query.raw)
    return float(((stems + exact) / 2) ** weights.coverage)


def _recency(one: Ranked, today: date, weights: Weights) -> float:
    """1 for what is old or has no date, a little more for what is new."""
    try:
        age = max(0, (today - date.fromisoformat(one.passage.date)).days)
    except ValueError:
        return 1.0
    return 1.0 + weights.recency * float(0.5 ** (age / weights.half_life))


def _filter(only: Filter) -> tuple[str, list[object]]:
    clauses: list[str] = []
    values: list[object] = []
    if only.kinds:
        clauses.append(f"kind IN ({','.join('?' * len(only.kinds))})")
        values += only.kinds
    if only.files:
        each = [path.strip("/").encode("utf-8", "surrogatepass") for path in only.files]
        clauses.append("(" + " OR ".join("file = ? OR substr(file, 1, ?) = ?" for _ in each) + ")")
        for path in each:
            values += [path, len(path) + 1, path + b"/"]
    where = f"AND rowid IN (SELECT id FROM passage WHERE {' AND '.join(clauses)})" if clauses else ""
    if only.without:
        where += (
            " AND rowid NOT IN (SELECT p.id FROM passage p JOIN source s ON s.id = p.source WHERE s.path = ?)"
        )
        values.append(packed(only.without))
    return where, values
