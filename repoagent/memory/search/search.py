"""Search the memory: update the index, query it, and cut each hit to the part that matched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.memory.identity.record import came_along, load
from repoagent.memory.search.index import Progress, memory_of, query_index, snapshot_files
from repoagent.memory.search.passages import Kind
from repoagent.memory.search.ranking import Filter, Query, Ranked, parse, ranked
from repoagent.memory.search.tokenize import tokens, words_in
from repoagent.storage.layout import Layout, Warn, to_stderr

WIDTH = 200  # characters


class Snippet(NamedTuple):
    """A text on one line; `marks` are the positions (start, end) of words of the query in it; `lines` is the number of
    lines of the passage before it."""

    text: str
    marks: tuple[tuple[int, int], ...]
    lines: int


def snippet(text: str, query: Query, width: int = WIDTH) -> Snippet:
    """At most `width` characters of `text`, around most of the query's words, with "…" for omitted text."""
    matches = [token for token in tokens(text) if _fits(token[0], query)]
    start = _best(matches, text, width, query)
    if start and matches:
        start = _line_or_word(text, start)
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


def _fits(token: str, query: Query) -> bool:
    words = words_in(token)
    return any(word in query.words for word in words.parts) or any(
        name in query.names or name in query.joined for name in words.names
    )


def _best(matches: list[re.Match[str]], text: str, width: int, query: Query) -> int:
    """The start of the first window with the most distinct words of the query."""
    if len(text) <= width or not matches:
        return 0
    best, most = 0, 0
    for number, token in enumerate(matches[:500]):
        inside: set[str] = set()
        for match in matches[number : number + 40]:
            if match.end() > token.start() + width * 3 // 4:
                break
            inside.update(word for word in words_in(match[0]).parts if word in query.words)
        if len(inside) > most:
            best, most = token.start(), len(inside)
    return best if best + 1 > width // 2 else 0


def _line_or_word(text: str, start: int) -> int:
    """A little before `start`: the beginning of its line, or of a word."""
    line = text.rfind("\n", 0, start) + 1
    if start - line <= 40:
        return line
    space = text.find(" ", start - 40, start)
    return space + 1 if space >= 0 else start


_RESULTS = 10
_NAMED = 5  # most files listed in one hit


@dataclass(frozen=True)
class Hit:
    """A note, edit, conversation or summary that matches. `file` is the path that it is about; if that is "", `name` is
    for example "commit 3f2a9c1be04d". `date` is "YYYY-MM-DD" or "". `snippet` is one line, and `marks` the positions
    (start, end) of words of the query in it. It is in the plain file `path`, on `line` (from 1). `stale`: whether it is
    a note about a version that was completely replaced since. `also`: other files with the same text, usually of one
    edit. A higher `score` is better; only scores of the same query are comparable."""

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
    """The hits, best first; `searched` is whether there were any files to search."""

    hits: tuple[Hit, ...] = ()
    searched: bool = False


@dataclass(frozen=True)
class Search:
    """Options: at most `limit` hits, of these kinds, about these files or folders, in snippets of `width` characters,
    with recency as of `today`; not in the plain file `without`, such as the conversation that searches."""

    limit: int = _RESULTS
    kinds: Sequence[Kind] = ()
    files: Sequence[str] = ()
    width: int = WIDTH
    today: date | None = None
    without: Path | None = None


DEFAULT_SEARCH = Search()


def search(layout: Layout, query: str, *, how: Search = DEFAULT_SEARCH, warn: Warn = to_stderr) -> list[Hit]:
    """The hits for `query`, which may be any text, best first. Raises Busy if another process builds the index for more
    than a minute, UsageError if SQLite lacks FTS5."""
    return list(answer(layout, query, how, warn=warn).hits)


def answer(
    layout: Layout, text: str, how: Search, *, warn: Warn = to_stderr, progress: Progress | None = None
) -> SearchResult:
    """The result for the query `text`. `progress` is called while the index is built or updated."""
    query = parse(text)
    seen = snapshot_files(layout)
    if not seen.files:
        return SearchResult()
    if not query.words:
        return SearchResult(searched=True)
    today = how.today or date.today()
    without = how.without.relative_to(layout.root).as_posix() if how.without else ""
    only = Filter(how.kinds, how.files, without)
    results = query_index(layout, seen, lambda index: ranked(index, query, only, today), warn, progress)
    groups: dict[tuple[str, str, str], list[Ranked]] = {}  # the same words on one day about several files
    for result in results:
        groups.setdefault((result.passage.kind, result.passage.date, result.passage.text), []).append(result)
    best = [*groups.values()][: how.limit]
    return SearchResult(tuple(_hit(layout, same, query, how.width) for same in best), searched=True)


def _hit(layout: Layout, same: list[Ranked], query: Query, width: int) -> Hit:
    best, *others = same
    passage = best.passage
    text, marks, lines = snippet(passage.text, query, width)
    line = (
        passage.line if passage.kind in ("edit", "commit") else passage.line + lines
    )  # these are on one line
    also = dict.fromkeys(item.passage.file for item in others)
    return Hit(
        passage.file, passage.kind, passage.date, text, marks, best.score, layout.root / best.path, line,
        passage.name, _is_stale(layout, best), tuple(file for file in also if file and file != passage.file),
    )  # fmt: skip


def _is_stale(layout: Layout, result: Ranked) -> bool:
    if result.passage.kind != "note" or not memory_of(result.path):
        return False
    try:
        identity = load(layout.memory / memory_of(result.path), warn=lambda message: None)
    except Refused:  # of a newer format
        return False
    return identity is not None and identity.is_of_older_text(result.passage.date, result.passage.blob)


def hit_line(hit: Hit) -> str:
    """A hit as a line, with its path and date."""
    where = hit.file or hit.name
    if hit.also:
        where += f" (and {', '.join(hit.also[:_NAMED])}{', …' if len(hit.also) > _NAMED else ''})"
    day = f"{hit.date}: " if hit.date else ""
    kind = "" if hit.kind in ("note", "edit") else f"[{hit.kind}] "
    older = " (about an older version of this file)" if hit.stale else ""
    foreign = " (came with the repository)" if came_along(hit.path.parent) else ""
    return f"{where}: {day}{kind}{hit.snippet}{older}{foreign}"
