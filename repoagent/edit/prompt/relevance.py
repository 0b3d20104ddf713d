"""Select the parts of a long file that a request is about, within a budget.

Segments are ranked by BM25 over their words and names (Robertson and Zaragoza, The Probabilistic Relevance Framework,
2009). Lines that recent commits touched count more, because what changed recently often changes again."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.small_models.excerpts import QUOTED, mentioned_definitions
from repoagent.git.process import OFFLINE, GitError, git
from repoagent.git.worktree import WorkTree

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\da-zA-Z_]+|\d+")
_LIKE_CODE = re.compile(r"_|\d|[a-z][A-Z]|^[A-Z]{2}.*[a-z]")
# Line numbers in a request or in pasted output: "line 12", "lines 10-40", "L12", `file.py:12`, `File "file.py", line
# 12`.
_LINES = re.compile(
    r"(?:(?P<file>[\w./\\+-]*\w\.\w{1,8})[:(]|(?:\"(?P<quoted>[^\"\n]+)\", )?\b[Ll]ines?\s+|\bL)"
    r"(?P<first>\d{1,7})(?:\s*(?:-|–|to|and|\.\.)\s*L?(?P<last>\d{1,7}))?\b"
)
MOST_LINES = 40  # line numbers to use of a request; a pasted log may have thousands
_NAME_WEIGHT = 2.5  # of a whole name, in addition to its parts


@dataclass(frozen=True)
class RequestTerms:
    """The search terms of a request: the stems of its words and its identifiers, in lower case, and what it quotes."""

    words: frozenset[str]
    names: frozenset[str]
    quotes: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]  # ranges from 1, inclusive


def read_query(text: str, path: str = "") -> RequestTerms:
    """The query for a request about the file `path`. Line numbers of other files are ignored."""
    quotes = tuple(dict.fromkeys(quote for groups in QUOTED.findall(text) for quote in groups if quote))
    marked = {word for quote in quotes for word in WORD.findall(quote)}
    all_words = WORD.findall(text)
    names = frozenset(word.lower() for word in all_words if word in marked or _LIKE_CODE.search(word))
    lines = []
    for match in islice(_LINES.finditer(text), MOST_LINES):
        file = match["file"] or match["quoted"]
        first, last = int(match["first"]), int(match["last"] or match["first"])
        own = not file or re.split(r"[/\\]", file)[-1] == path.rpartition("/")[2]
        if own and 0 < first <= last:
            lines.append((first, last))
    return RequestTerms(
        frozenset(chain.from_iterable(map(word_stems, all_words))), names, quotes, tuple(lines)
    )


@lru_cache(maxsize=1 << 16)
def word_stems(name: str) -> tuple[str, ...]:
    """The stems of the words of an identifier: `parseHTTPHeaders` gives parse, http, header."""
    stems = []  # with bench/large: most words of two letters ("to", "in") are no help
    for word in (part.lower() for part in _PARTS.findall(name) if len(part) > 2):
        if len(word) > 4 and word.endswith("ies"):
            stems.append(word[:-3] + "y")
            continue
        for ending in ("ing", "ed", "es", "s", "e"):
            if word.endswith(ending) and len(word) - len(ending) > 2 and not word.endswith("ss"):
                word = word[: -len(ending)]
                break
        stems.append(word[:-1] if len(word) > 3 and word[-1] == word[-2] else word)
    return tuple(stems)


def known_terms(names: Collection[str], query: RequestTerms) -> dict[str, tuple[str, ...]]:
    """The query terms in each name; a name without any is left out.

    The terms are the stems that the name contains and, if the query has the whole name, "=" followed by the name.
    """
    # a word contains its stem, except for the last letter: one search excludes nearly all names
    begins = {word[:-1] or word for word in query.words}
    if not begins:
        return {}
    likely = re.compile("|".join(map(re.escape, sorted(begins))), re.IGNORECASE).search
    known = {}
    for name in filter(likely, names):
        terms = tuple(part for part in dict.fromkeys(word_stems(name)) if part in query.words)
        if name.lower() in query.names:
            terms = (*terms, f"={name.lower()}")
        if terms:
            known[name] = terms
    return known


UNIT_BYTES = 1_600  # of a segment; with bench/large: larger ones waste space, smaller ones split definitions


@dataclass(frozen=True)
class TextUnit:
    """Consecutive whole lines, `first` to `last` (from 1, inclusive)."""

    first: int
    last: int
    text: str

    @property
    def size(self) -> int:  # in bytes
        return len(self.text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=4)  # the prompts of one edit, and the benchmark, ask for the same file more than once
def split_units(path: str, text: str) -> tuple[TextUnit, ...]:
    """The segments of `text`, in order. A line that crosses a boundary of segments is a segment of its own."""
    from repoagent.split.splitter import cut_into_spans

    data = text.encode("utf-8", "surrogatepass")
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    units: list[TextUnit] = []
    done = ended = 0  # lines in units, and lines that end before the boundary
    for start, end, _ in cut_into_spans(path, data, target=UNIT_BYTES)[0]:
        ended += data.count(b"\n", start, end)
        for last in (ended, ended + (not data.endswith(b"\n", start, end))):
            if last > done:
                units.append(TextUnit(done + 1, last, "".join(lines[done:last])))
                done = last
    return tuple(units)


SATURATION, LENGTH = 1.2, 0.75  # k1 and b
QUOTE = 12.0  # score of a quotation in only one segment; shared if several contain it


def _scores(units: Sequence[TextUnit], query: RequestTerms) -> list[float]:
    """The BM25 score (>= 0) of each segment."""
    words = [Counter(WORD.findall(unit.text)) for unit in units]
    known = known_terms({name for count in words for name in count}, query)
    counts: list[dict[str, float]] = []
    for own in words:
        count: dict[str, float] = {}
        for word in own.keys() & known.keys():
            for term in known[word]:
                count[term] = count.get(term, 0.0) + own[word]
        counts.append(count)
    among = Counter(term for count in counts for term in count)
    rarity = {
        term: (_NAME_WEIGHT if term.startswith("=") else 1.0)
        * math.log(1 + (len(units) - count + 0.5) / (count + 0.5))
        for term, count in among.items()
    }
    mean = sum(own.total() for own in words) / max(1, len(units)) or 1.0
    scores = []
    for own, count in zip(words, counts, strict=True):
        norm = SATURATION * (1 - LENGTH + LENGTH * own.total() / mean)
        scores.append(sum(rarity[term] * n * (SATURATION + 1) / (n + norm) for term, n in count.items()))
    for quote in query.quotes:
        quoting = [number for number, unit in enumerate(units) if quote in unit.text]
        for number in quoting:
            scores[number] += QUOTE / len(quoting)
    return scores


COMMITS = 10
MOST = 10 << 20  # bytes of all versions to compare
_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_OPTIONS = (
    "log", "--no-follow", "--no-merges", "--no-notes", "--no-decorate", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-renames", "-p", "-U0", "--format=%x01",
)  # fmt: skip

# First and last line (from 1, in the text of the commit), and the age: 0 for the last commit, 1 for the previous one.
Touched = tuple[int, int, int]


def recently_touched(worktree: WorkTree, path: str, size: int, since: int | None) -> tuple[Touched, ...]:
    """The lines of a file that recent commits added or changed: at most COMMITS commits, and none before `since`
    (seconds since 1970).

    `size` is the size of the file in bytes; for a huge file, fewer commits are read. Line numbers are those of each
    commit, which is accurate enough here.
    """
    commits = max(1, min(COMMITS, MOST // max(1, size)))
    bound = [] if since is None else [f"--max-age={since}"]
    try:
        text = git(worktree.top, *_OPTIONS, *bound, "-n", str(commits), "HEAD", "--", path, env=OFFLINE)
    except GitError:  # an unborn branch
        return ()
    return tuple(
        (int(first), int(first) + max(0, int(count or 1) - 1), age)
        for age, patch in enumerate(text.split(b"\x01")[1:])
        for first, count in _HUNK.findall(patch)
    )


HEAD_BYTES = 1_200  # of the beginning of the file, which tells what it is
NEIGHBOR = 0.2  # share of the score of the segments before and after
RECENT = 0.2  # bonus for lines of the last commit (share of the best score)
OLDER = 0.8  # factor of that bonus per older commit
NAMED = 1.0  # bonus for a definition that the request names (share of the best score)
FLOOR = 0.2  # least share of the best score: anything below is not worth its tokens
POINTED, AROUND = 1e6, 1e4  # scores of the lines that the user named, and of the definition around them


@dataclass(frozen=True)
class Relevance:
    """What determines the parts to show: the request, the line ranges that the user named, and the lines that recent
    commits touched."""

    request: str
    ranges: tuple[tuple[int, int], ...] = ()  # of lines that the user named
    recent: tuple[Touched, ...] = ()


def choose_parts(
    path: str, units: Sequence[TextUnit], symbols: Sequence[Symbol], about: Relevance, budget: int
) -> list[TextUnit]:
    """The parts to show, in file order, in at most about `budget` bytes: the beginning of the file, the lines that the
    user named, and the segments with the best scores."""
    if not units:
        return []
    ranked = _ranked(path, units, symbols, about)
    chosen: dict[int, TextUnit] = {}
    head = _beginning(units[0], min(HEAD_BYTES, budget // 4))
    left = budget - (head.size if head else 0)
    best = max((score for score in ranked if score < AROUND), default=0.0)
    for number in sorted(range(len(units)), key=lambda number: (-ranked[number], number)):
        score = ranked[number]
        if best and score < FLOOR * best and len(chosen) > 1:
            break
        if about.ranges and score < AROUND and left < budget // 2:
            break  # the user named lines: other parts get at most half
        unit: TextUnit | None = units[number]
        if units[number].size > left:
            unit = _beginning(units[number], left) if score >= AROUND and left > budget // 8 else None
        if unit is not None:
            chosen[number] = unit
            left -= unit.size
        if left < budget // 64:
            break
    if head is not None:
        chosen.setdefault(0, head)
    merged: list[TextUnit] = []
    for _, unit in sorted(chosen.items()):
        if merged and unit.first == merged[-1].last + 1:
            merged[-1] = TextUnit(merged[-1].first, unit.last, merged[-1].text + unit.text)
        else:
            merged.append(unit)
    return merged


def _ranked(path: str, units: Sequence[TextUnit], symbols: Sequence[Symbol], about: Relevance) -> list[float]:
    query = read_query(about.request, path)
    plain = _scores(units, query)
    best, last = max(plain) or 1.0, len(units) - 1
    bonus = [0.0] * len(units)
    for first, end, age in about.recent:
        for number in {*_covering(units, first, first), *_covering(units, end, end)}:
            bonus[number] = max(bonus[number], RECENT * OLDER**age)
    named = mentioned_definitions(symbols, about.request, limit=150, sure=True)
    for symbol in named:
        for row, number in enumerate(_covering(units, symbol.first_line, symbol.last_line)):
            bonus[number] += NAMED / (1 + row / 2) / len(named) ** 0.5
    scores = [
        score + NEIGHBOR * max(plain[max(0, number - 1)], plain[min(last, number + 1)]) + best * bonus[number]
        for number, score in enumerate(plain)
    ]
    bodies = [s for s in symbols if s.kind in ("function", "method")]
    # first the lines that the user named, then the segments before and after, and the function around them
    for first, end in (*about.ranges, *query.lines):
        pointed = _covering(units, first, end)
        for row, number in enumerate(pointed):
            scores[number] += POINTED - row
        for number in {max(0, pointed[0] - 1), min(last, pointed[-1] + 1)} - {*pointed}:
            scores[number] += AROUND
        for symbol in [s for s in bodies if s.first_line <= first <= s.last_line][-1:]:
            for number in set(_covering(units, symbol.first_line, symbol.last_line)) - {*pointed}:
                scores[number] += AROUND - min(abs(number - edge) for edge in (pointed[0], pointed[-1]))
    return scores


def _covering(units: Sequence[TextUnit], first: int, last: int) -> range:
    """The indexes of the segments with these lines; the last one for lines after the end."""
    start = min(bisect_left(units, first, key=lambda unit: unit.last), len(units) - 1)
    end = bisect_right(units, last, lo=start, key=lambda unit: unit.first)
    return range(start, max(start + 1, end))


def _beginning(unit: TextUnit, size: int) -> TextUnit | None:
    """The first lines of a unit that fit `size` bytes; None if not even one does."""
    if unit.size <= size:
        return unit
    start = unit.text.encode("utf-8", "surrogatepass")[:size]
    start = start[: start.rfind(b"\n") + 1]
    last = unit.first + start.count(b"\n") - 1
    return TextUnit(unit.first, last, start.decode("utf-8", "surrogatepass")) if start else None
