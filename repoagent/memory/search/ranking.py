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

_MOST = 48  # most distinct words of a query
_QUOTED = re.compile('"([^"]+)"|“([^”]+)”')


class Query(NamedTuple):
    """`words` are the stems of significant words, `common` of the others, and `raw` all words unstemmed; `names` are
    the compound names, `joined` consecutive words as one name; the words of each of `phrases` must occur in this
    order."""

    words: tuple[str, ...]
    names: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    common: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()


def parse(text: str) -> Query:
    """Parse the query `text`; the result has no words if there is nothing to search for."""
    phrases = [words_of(straight or curly).parts for straight, curly in _QUOTED.findall(text)]
    all_tokens = [token[0] for token in tokens(text)][: 4 * _MOST]
    telling = [token for token in all_tokens if not is_common(token)] or all_tokens
    words = [word for token in telling for word in words_in(token).parts]
    common = [word for token in all_tokens if token not in telling for word in words_in(token).parts]
    names = [name for token in all_tokens for name in words_in(token).names]
    plain = [token.lower() if not words_in(token).names else "" for token in all_tokens]
    pairs = pairwise(plain)
    joined = ["".join(pair)[:LONGEST] for pair in pairs if all(pair) and not all(map(is_common, pair))]
    return Query(
        tuple(dict.fromkeys(words))[:_MOST],
        tuple(dict.fromkeys(names))[:_MOST],
        tuple(dict.fromkeys(joined))[:_MOST],
        tuple(phrase for phrase in phrases if len(phrase) > 1),
        tuple(dict.fromkeys(word for word in common if word not in words))[:_MOST],
        tuple(dict.fromkeys(word for token in all_tokens for word in words_in(token).raw))[:_MOST],
    )


def match(query: Query) -> str:
    """The query in FTS5 syntax: any of its words, and all of its phrases."""
    any_of = [_quoted(word) for word in query.words]
    any_of += [f"names : {_quoted(name)}" for name in (*query.names, *query.joined)]
    any_of += [f"path : {_quoted(name)}" for name in query.names]
    either = " OR ".join(any_of)
    needed = [_quoted(" ".join(phrase)) for phrase in query.phrases]
    return " AND ".join([*needed, f"({either})"])


def _quoted(words: str) -> str:
    return f'"{words}"'  # only letters and digits


class Weights(NamedTuple):
    """Weights of the columns; then `coverage`, the exponent of the share of the query's words in a passage, and
    `common`, the weight of common words in it; `together`, the weight of the other matching passages of a file;
    `recency`, the bonus of new passages, and `half_life`, the days after which it is halved; `archived`, the factor
    for archived passages."""

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
_LOOKED_AT = 200  # most passages to rank
_FREQUENT = 4_000  # words in more passages are left out
_FEWEST = 3  # rarest words, which are never left out


class Ranked(NamedTuple):
    """A passage, the path of its plain file below the root, and its score (higher is better)."""

    passage: Passage
    path: str
    score: float


class Filter(NamedTuple):
    """Search only passages of these kinds, about these files or files in these folders; () means all. `without` is a
    plain file below the root that is left out."""

    kinds: Sequence[Kind] = ()
    files: Sequence[str] = ()
    without: str = ""


def ranked(
    connection: sqlite3.Connection, query: Query, only: Filter, today: date, weights: Weights = WEIGHTS
) -> list[Ranked]:
    """The matching passages, best first; a few hundred at most."""
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
    passages = [Ranked(passage_of(fields), unpacked(path), scores[number]) for number, path, *fields in rows]
    return _weighed(passages, query, today, weights)


def frequencies(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """The number of passages that contain each word."""
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)"
    )
    sql = "SELECT doc FROM temp.vocabulary WHERE term = ?"
    return {word: (connection.execute(sql, (word,)).fetchone() or (0,))[0] for word in words}


def _telling(connection: sqlite3.Connection, words: Sequence[str]) -> tuple[str, ...]:
    """`words` without very frequent ones, which take most of the time and say the least, if there are rarer ones."""
    often = frequencies(connection, words)
    rarest = sorted((word for word in words if often[word]), key=lambda word: often[word])
    selected = {word for at, word in enumerate(rarest) if at < _FEWEST or often[word] <= _FREQUENT}
    return tuple(word for word in words if word in selected) or tuple(words)


def _weighed(items: list[Ranked], query: Query, today: date, weights: Weights = WEIGHTS) -> list[Ranked]:
    """Sort passages by score, age, coverage of the query, and the other matching passages of the same file.

    The other passages of a file add to the score of its best one only, so that they leave room for other files. The
    best one is chosen by its score alone: with the sum of the others, the worst would often win.
    """

    def score(item: Ranked) -> float:
        """The score by age, lower for archived passages."""
        return (
            item.score
            * _recency(item, today, weights)
            * (weights.archived if is_archived(item.path) else 1.0)
        )

    by_file: dict[str, list[Ranked]] = defaultdict(list)
    for item in sorted((item._replace(score=score(item)) for item in items), key=_order):
        by_file[item.passage.file or item.path].append(item)
    scored = []
    for passages in by_file.values():
        support = sum(item.score * 0.5**number for number, item in enumerate(passages))
        own = [item.score * _coverage(item, query, weights) for item in passages]
        wholes = [
            mine + weights.together * (support - item.score) for mine, item in zip(own, passages, strict=True)
        ]
        best = own.index(max(own))
        scored += [
            item._replace(score=max(wholes) if number == best else own[number])
            for number, item in enumerate(passages)
        ]
    return sorted(scored, key=_order)


def _order(item: Ranked) -> tuple[float, str, int, str]:
    return -item.score, item.path, item.passage.line, item.passage.text


def _coverage(item: Ranked, query: Query, weights: Weights) -> float:
    """The share of the query's words in a passage, 0 to 1: the mean for stemmed and unstemmed words."""
    words = words_of(item.passage.text)
    parts, raw = set(words.parts), set(words.raw)
    common = len(parts.intersection(query.words)) + weights.common * len(parts.intersection(query.common))
    stems = common / (len(query.words) + weights.common * len(query.common))
    exact = len(raw.intersection(query.raw)) / len(query.raw)
    return float(((stems + exact) / 2) ** weights.coverage)


def _recency(item: Ranked, today: date, weights: Weights) -> float:
    """A factor: 1 for old passages or without a date, a little more for new ones."""
    try:
        age = max(0, (today - date.fromisoformat(item.passage.date)).days)
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
        paths = [path.strip("/").encode("utf-8", "surrogatepass") for path in only.files]
        clauses.append("(" + " OR ".join("file = ? OR substr(file, 1, ?) = ?" for _ in paths) + ")")
        for path in paths:
            values += [path, len(path) + 1, path + b"/"]
    where = f"AND rowid IN (SELECT id FROM passage WHERE {' AND '.join(clauses)})" if clauses else ""
    if only.without:
        where += (
            " AND rowid NOT IN (SELECT p.id FROM passage p JOIN source s ON s.id = p.source WHERE s.path = ?)"
        )
        values.append(packed(only.without))
    return where, values
