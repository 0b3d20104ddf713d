"""Search the memory: parse the query, rank the passages in an up-to-date index, and cut each one to the part that
matched.

Any text is a query; quotation marks for phrases are the only syntax. Passages are ranked by BM25 with column weights,
then by the share of the query in them, the file, and their age.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.memory.identity.memory_index import load_or_warn, pack_text, unpack_text
from repoagent.memory.identity.record import came_along
from repoagent.memory.search import index
from repoagent.memory.search.index import Progress, memory_of
from repoagent.memory.search.passages import (
    LONGEST,
    Kind,
    Passage,
    find_tokens,
    is_common,
    words_in,
    words_of,
)
from repoagent.storage.layout import Layout, Warn, to_stderr

WIDTH = 200  # characters
_RESULTS = 10
_NAMED = 5  # most files listed in one hit
_MOST = 48  # most distinct words of a query
_QUOTED = re.compile('"([^"]+)"|“([^”]+)”')
_LOOKED_AT = 200  # most passages to rank
_FREQUENT = 4_000  # words in more passages are left out
_FEWEST = 3  # rarest words, which are never left out

_BM25 = "bm25(2.0, 1.0, 2.0, 1.5)"  # weights of title, body, names and path
_COVERAGE = 3.0  # exponent of the share of the query's words in a passage
_COMMON = 0.3  # weight of common words in that share
_TOGETHER = 0.5  # weight of the other matching passages of a file
_RECENCY, _HALF_LIFE = 0.2, 180.0  # bonus of new passages, and the days after which it is halved
_ARCHIVED = 0.5  # factor for archived passages


@dataclass(frozen=True)
class Hit:
    """A note, edit, conversation or summary that matches.

    file: the path of the file that it is about, or "".
    name: if `file` is "", what it is about instead, such as "commit 3f2a9c1be04d".
    date: "YYYY-MM-DD" or "".
    snippet: an excerpt on one line.
    marks: the positions (start, end) of the query's words in the snippet.
    score: higher is better; only scores for the same query are comparable.
    path, line: the plain file that contains the text, and the line (from 1).
    stale: whether it is a note about a version that has been completely replaced since.
    also: other files with the same text, usually from one edit.
    """

    file: str
    kind: Kind
    date: str
    snippet: str
    marks: tuple[tuple[int, int], ...]
    score: float
    path: Path
    line: int
    name: str = ""
    stale: bool = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchResult:
    """The hits, best first; `searched` says whether there were any files to search."""

    hits: tuple[Hit, ...] = ()
    searched: bool = False


@dataclass(frozen=True)
class SearchOptions:
    """Search options.

    limit: the largest number of hits.
    kinds: the kinds of hits; () means all.
    files: the files or folders that hits are about; () means all.
    width: the length of a snippet in characters.
    today: the day from which the age of a passage is counted back.
    without: a plain file that is not searched, such as the conversation that the query comes from.
    """

    limit: int = _RESULTS
    kinds: Sequence[Kind] = ()
    files: Sequence[str] = ()
    width: int = WIDTH
    today: date | None = None
    without: Path | None = None


DEFAULT_SEARCH = SearchOptions()


def search_memories(
    layout: Layout, query: str, *, how: SearchOptions = DEFAULT_SEARCH, warn: Warn = to_stderr
) -> list[Hit]:
    """Return the hits for `query`, which may be any text, best first.

    Raises Busy if another process is still building the index after a minute, UsageError if SQLite lacks FTS5.
    """
    return list(answer_query(layout, query, how, warn=warn).hits)


def answer_query(
    layout: Layout, text: str, how: SearchOptions, *, warn: Warn = to_stderr, progress: Progress | None = None
) -> SearchResult:
    """The result for the query `text`. `progress` is called while the index is built or updated."""
    query = parse_query(text)
    seen = index.snapshot_files(layout)
    if not seen:
        return SearchResult()
    if not query.words:
        return SearchResult(searched=True)

    def rank(connection: sqlite3.Connection) -> list[Ranked]:
        return ranked(connection, query, how, layout.root)

    groups: dict[tuple[str, str, str], list[Ranked]] = {}  # the same words on one day about several files
    for result in index.query_index(layout, seen, rank, warn, progress):
        groups.setdefault((result.passage.kind, result.passage.date, result.passage.text), []).append(result)
    hits = []
    for best, *others in [*groups.values()][: how.limit]:
        passage, folder, stale = best.passage, memory_of(best.path), False
        excerpt, marks, lines = snippet(passage.text, query, how.width)
        lines = 0 if passage.kind in ("edit", "commit") else lines  # these are on one line
        also = dict.fromkeys(item.passage.file for item in others)
        if passage.kind == "note" and folder:
            identity = load_or_warn(layout.memory / folder, lambda message: None)
            stale = identity is not None and identity.is_of_older_text(passage.date, passage.blob)
        hits.append(Hit(
            passage.file, passage.kind, passage.date, excerpt, marks, best.score, layout.root / best.path,
            passage.line + lines, passage.name, stale,
            tuple(file for file in also if file and file != passage.file),
        ))  # fmt: skip
    return SearchResult(tuple(hits), searched=True)


def hit_line(hit: Hit) -> str:
    """A hit on one line, with its path and date."""
    where = hit.file or hit.name
    if hit.also:
        where += f" (and {', '.join(hit.also[:_NAMED])}{', …' if len(hit.also) > _NAMED else ''})"
    day = f"{hit.date}: " if hit.date else ""
    kind = "" if hit.kind in ("note", "edit") else f"[{hit.kind}] "
    older = " (about an older version of this file)" if hit.stale else ""
    foreign = " (came with the repository)" if came_along(hit.path.parent) else ""
    return f"{where}: {day}{kind}{hit.snippet}{older}{foreign}"


# -- the query --


class Query(NamedTuple):
    """A parsed query. `words` are the stems of significant words, `common` those of the others, and `raw` all words
    unstemmed; `names` are the compound names, and `joined` pairs of consecutive words, each written as one name; the
    words of each phrase in `phrases` must occur in that order."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    joined: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]
    common: tuple[str, ...]
    raw: tuple[str, ...]


def parse_query(text: str) -> Query:
    """Parse the query `text`; the result has no words if there is nothing to search for."""
    phrases = [words_of(straight or curly).parts for straight, curly in _QUOTED.findall(text)]
    all_tokens = [token[0] for token in find_tokens(text)][: 4 * _MOST]
    telling = [token for token in all_tokens if not is_common(token)] or all_tokens
    words = [word for token in telling for word in words_in(token).parts]
    common = [word for token in all_tokens if token not in telling for word in words_in(token).parts]
    plain = [token.lower() if not words_in(token).names else "" for token in all_tokens]
    pairs = [pair for pair in pairwise(plain) if all(pair) and not all(map(is_common, pair))]

    def distinct(items: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(items))[:_MOST]

    return Query(
        distinct(words),
        distinct(name for token in all_tokens for name in words_in(token).names),
        distinct("".join(pair)[:LONGEST] for pair in pairs),
        tuple(phrase for phrase in phrases if len(phrase) > 1),
        distinct(word for word in common if word not in words),
        distinct(word for token in all_tokens for word in words_in(token).raw),
    )


def match(query: Query) -> str:
    """Return the query in FTS5 syntax: any of its words, and all of its phrases. Words need no escaping."""
    any_of = [f'"{word}"' for word in query.words]
    any_of += [f'names : "{name}"' for name in (*query.names, *query.joined)]
    any_of += [f'path : "{name}"' for name in query.names]
    needed = [f'"{" ".join(phrase)}"' for phrase in query.phrases]
    return " AND ".join([*needed, f"({' OR '.join(any_of)})"])


# -- ranking --


class Ranked(NamedTuple):
    """A passage, the path of its plain file below the root, and its score (higher is better)."""

    passage: Passage
    path: str
    score: float


def ranked(connection: sqlite3.Connection, query: Query, how: SearchOptions, root: Path) -> list[Ranked]:
    """The matching passages, best first; a few hundred at most. `root` is the folder of the plain files."""
    if not query.words:
        return []
    often = frequencies(connection, query.words)
    # very frequent words take most of the time and say the least
    rarest = sorted((word for word in query.words if often[word]), key=lambda word: often[word])
    rare = {word for at, word in enumerate(rarest) if at < _FEWEST or often[word] <= _FREQUENT}
    telling = tuple(word for word in query.words if word in rare) or query.words
    clauses: list[str] = []  # for the options that limit the search
    values: list[object] = []
    if how.kinds:
        clauses.append(f"kind IN ({','.join('?' * len(how.kinds))})")
        values += how.kinds
    if how.files:
        paths = [pack_text(path.strip("/")) for path in how.files]
        clauses.append("(" + " OR ".join("file = ? OR substr(file, 1, ?) = ?" for _ in paths) + ")")
        for path in paths:
            values += [path, len(path) + 1, path + b"/"]
    where = f"AND rowid IN (SELECT id FROM passage WHERE {' AND '.join(clauses)})" if clauses else ""
    if how.without is not None:
        same = "SELECT p.id FROM passage p JOIN source s ON s.id = p.source WHERE s.path = ?"
        where += f" AND rowid NOT IN ({same})"
        values.append(pack_text(how.without.relative_to(root).as_posix()))
    best = connection.execute(
        f"SELECT rowid, rank FROM words WHERE words MATCH ? AND rank MATCH ? {where} ORDER BY rank LIMIT ?",
        (match(query._replace(words=telling)), _BM25, *values, _LOOKED_AT),
    ).fetchall()
    scores = {number: -score for number, score in best}
    holes = ",".join("?" * len(scores))
    rows = connection.execute(
        "SELECT p.id, s.path, p.kind, p.file, p.date, p.line, p.text, p.title, p.name, p.blob "
        f"FROM passage p JOIN source s ON s.id = p.source WHERE p.id IN ({holes})",
        tuple(scores),
    )
    items = [
        Ranked(index.passage_of(fields), unpack_text(path), scores[number]) for number, path, *fields in rows
    ]
    return _weighed(items, query, how.today or date.today())


def frequencies(connection: sqlite3.Connection, words: Iterable[str]) -> dict[str, int]:
    """The number of passages that contain each word."""
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab (main, words, row)"
    )
    sql = "SELECT doc FROM temp.vocabulary WHERE term = ?"
    return {word: (connection.execute(sql, (word,)).fetchone() or (0,))[0] for word in words}


def _weighed(items: list[Ranked], query: Query, today: date) -> list[Ranked]:
    """Sort passages by score, age, coverage of the query, and the other matching passages of the same file.

    Those add to the best one only, to leave room for other files; it is the best by its own score.
    """

    def aged(item: Ranked) -> Ranked:
        """The passage with a score that is a little higher if it is new, lower if it is archived."""
        score = item.score * (_ARCHIVED if index.is_archived(item.path) else 1.0)
        try:
            age = max(0, (today - date.fromisoformat(item.passage.date)).days)
        except ValueError:  # no date
            return item._replace(score=score)
        return item._replace(score=score * (1.0 + _RECENCY * float(0.5 ** (age / _HALF_LIFE))))

    def coverage(item: Ranked) -> float:
        """The share of the query's words in a passage, 0 to 1: the mean for stemmed and unstemmed words."""
        words = words_of(item.passage.text)
        parts, raw = set(words.parts), set(words.raw)
        common = len(parts.intersection(query.words)) + _COMMON * len(parts.intersection(query.common))
        stems = common / (len(query.words) + _COMMON * len(query.common))
        exact = len(raw.intersection(query.raw)) / len(query.raw)
        return float(((stems + exact) / 2) ** _COVERAGE)

    by_file: dict[str, list[Ranked]] = defaultdict(list)
    for item in sorted(map(aged, items), key=_order):
        by_file[item.passage.file or item.path].append(item)
    scored = []
    for passages in by_file.values():
        support = sum(item.score * 0.5**number for number, item in enumerate(passages))
        own = [item.score * coverage(item) for item in passages]
        best = own.index(max(own))
        whole = max(
            mine + _TOGETHER * (support - item.score) for mine, item in zip(own, passages, strict=True)
        )
        scored += [
            item._replace(score=whole if number == best else own[number])
            for number, item in enumerate(passages)
        ]
    return sorted(scored, key=_order)


def _order(item: Ranked) -> tuple[float, str, int, str]:
    return -item.score, item.path, item.passage.line, item.passage.text


# -- the part of a passage that is shown --


class Snippet(NamedTuple):
    """A text on one line, with the positions (start, end) of the query's words and the number of `lines` before it."""

    text: str
    marks: tuple[tuple[int, int], ...]
    lines: int


def snippet(text: str, query: Query, width: int = WIDTH) -> Snippet:
    """Return at most `width` characters of `text`, from the place with the most words of the query."""
    wanted, names = set(query.words), {*query.names, *query.joined}
    matches = [
        token
        for token in find_tokens(text)
        if wanted.intersection(words_in(token[0]).parts) or names.intersection(words_in(token[0]).names)
    ]
    start = _best_start(matches, text, width, wanted) if len(text) > width else 0
    before = "…" if text[:start].strip() else ""
    pieces, marks, size = [before], list[tuple[int, int]](), len(before)
    at = start
    for token in [*(token for token in matches if token.start() >= start), None]:
        end = len(text) if token is None else token.start()
        between = re.sub(r"\s+", " ", text[at:end])
        if size in (0, len(before)):
            between = between.lstrip()
        if size + len(between) + (len(token[0]) if token else 0) > width:
            pieces.append(between[: max(0, width - 1 - size)].rstrip() + "…")
            break
        pieces.append(between)
        size += len(between)
        if token is not None:
            marks.append((size, size + len(token[0])))
            pieces.append(token[0])
            size += len(token[0])
            at = token.end()
    whole = "".join(pieces).rstrip()
    first = next((token.start() for token in matches if token.start() >= start), start)
    return Snippet(whole, tuple(mark for mark in marks if mark[1] <= len(whole)), text.count("\n", 0, first))


def _best_start(matches: list[re.Match[str]], text: str, width: int, words: set[str]) -> int:
    """The start of the first window with the most distinct words of the query, or of the line or word there."""
    best, most = 0, 0
    for number, token in enumerate(matches[:500]):
        window = (
            match for match in matches[number : number + 40] if match.end() <= token.start() + width * 3 // 4
        )
        inside = {word for match in window for word in words_in(match[0]).parts} & words
        if len(inside) > most:
            best, most = token.start(), len(inside)
    if best + 1 <= width // 2:
        return 0
    line = text.rfind("\n", 0, best) + 1
    if best - line <= 40:
        return line
    space = text.find(" ", best - 40, best)
    return space + 1 if space >= 0 else best
