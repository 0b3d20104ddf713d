"""Select the parts of a long file that a request is about, within a budget.

Segments are ranked by BM25 over their words and names, with the names of definitions weighted more ("BM25F":
Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009). Lines that recent commits touched count more,
because a place that changed recently often changes again.

`guessed` finds hunks that quote lines which the model has not seen."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.edit.request import Draft
from repoagent.edit.small_models.excerpts import mentioned
from repoagent.git.process import OFFLINE, GitError, git
from repoagent.git.worktree import WorkTree
from repoagent.patch.locate.exact import Placement

if TYPE_CHECKING:
    from repoagent.syntax.symbol import Symbol

QUOTED = re.compile(r"`([^`\n]{2,200})`|\"([^\"\n]{2,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)")
WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\da-zA-Z_]+|\d+")
_LIKE_CODE = re.compile(r"_|\d|[a-z][A-Z]|^[A-Z]{2}.*[a-z]")
# Lines that the user or a program names: "line 12", "lines 10-40", "L12", `file.py:12`, `File "file.py", line 12`.
_LINES = re.compile(
    r"(?:(?P<file>[\w./\\+-]*\w\.\w{1,8})[:(]|(?:\"(?P<quoted>[^\"\n]+)\", )?\b[Ll]ines?\s+|\bL)"
    r"(?P<first>\d{1,7})(?:\s*(?:-|–|to|and|\.\.)\s*L?(?P<last>\d{1,7}))?\b"
)
_FEW = 40  # lines that a request names; a log may name thousands
# What nearly every request says, and what says nothing of a place.
_PLAIN = frozenset(
    WORD.findall(
        """
        a able about according add added adding adds after again all allow allowed allows also always an and any are as
        at avoid be because been before behavior behaviour being better both bug but by can case cases change changed
        changes code comment comments correct correctly could do docs documentation does doing don down each ensure
        error errors etc even every example few file files fix fixed fixes fixing for from function functions get give
        gives had handle handled handles handling has have if implement implemented improve improved in instead into is
        issue issues it its just keep let like line lines made make makes making may method methods minor missing more
        move must need needs never new no not now of on once one only or other our out over possible problem properly
        refactor remove removed removes removing rename renamed replace request return returns same set shall should
        simplify so some still such support supports sure test tests than that the their them then there these they
        this to too try typo up update updated updates use used uses using very was way we were what when where whether
        which while will with without work works would wrong you your
        """
    )
)
_PLAIN_WEIGHT = 0.15
_NAME_WEIGHT = 2.5  # of a whole name, next to that of its parts


@dataclass(frozen=True)
class Query:
    """`words` (stems) and `names` (whole identifiers) with their weights, in lower case; `quotes` verbatim; `lines`
    as ranges from 1, both inclusive."""

    words: dict[str, float]
    names: dict[str, float]
    quotes: tuple[str, ...]
    lines: tuple[tuple[int, int], ...]


def read_query(text: str, path: str = "") -> Query:
    """The query of a request about the file `path`. Line numbers for other files are ignored."""
    words: dict[str, float] = {}
    names: dict[str, float] = {}
    quotes = tuple(dict.fromkeys(quote for found in QUOTED.findall(text) for quote in found if quote))
    marked = {word for quote in quotes for word in WORD.findall(quote)}
    for word in WORD.findall(text):
        name = word.lower()
        if word in marked or _LIKE_CODE.search(word):
            names[name] = _NAME_WEIGHT
        plain = name in _PLAIN and word not in marked
        for part in parts(word):
            words[part] = max(words.get(part, 0.0), _PLAIN_WEIGHT if plain else 1.0)
    return Query(words, names, quotes, tuple(_lines(text, path)))


def _lines(text: str, path: str) -> Iterable[tuple[int, int]]:
    own = path.rpartition("/")[2]
    for match in islice(_LINES.finditer(text), _FEW):
        file = match["file"] or match["quoted"]
        if file and re.split(r"[/\\]", file)[-1] != own:
            continue
        first = int(match["first"])
        last = int(match["last"] or first)
        if 0 < first <= last:
            yield first, last


@lru_cache(maxsize=1 << 16)
def parts(name: str) -> tuple[str, ...]:
    """The stems of the words of an identifier: `parseHTTPHeaders` is parse, http, header."""
    return tuple(stem(part.lower()) for part in _PARTS.findall(name) if len(part) > 1)


def stem(word: str) -> str:
    """A word without its inflectional ending; for comparison, not for reading."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


SATURATION, LENGTH = 1.2, 0.75  # k1 and b
BEGINS, HOLDS = (
    4.0,
    1.0,
)  # how often a name counts in the segment where its definition begins, and in its others
QUOTE = 12.0  # of a quotation that only one segment holds


def scores(
    texts: Sequence[str], spans: Sequence[tuple[int, int]], symbols: Sequence[Symbol], query: Query
) -> list[float]:
    """A score >= 0 for each segment: its text, and its first and last line in `spans`."""
    words = [Counter(WORD.findall(text)) for text in texts]
    known = known_terms({name for count in words for name in count}, query)
    counts = [(_count(count, known), count.total()) for count in words]
    _add_symbols(counts, spans, symbols, query)
    total = len(texts)
    among = Counter(term for count, _ in counts for term in count)
    weights = {
        term: weight * math.log(1 + (total - among[term] + 0.5) / (among[term] + 0.5))
        for term, weight in _weights(query).items()
    }
    mean = sum(length for _, length in counts) / max(1, total) or 1.0
    result = []
    for count, length in counts:
        norm = SATURATION * (1 - LENGTH + LENGTH * length / mean)
        result.append(sum(weights[term] * n * (SATURATION + 1) / (n + norm) for term, n in count.items()))
    _add_quotes(result, texts, query.quotes)
    return result


def _weights(query: Query) -> dict[str, float]:
    """What each term counts: a word of the request, or "=" and a whole name."""
    return {**query.words, **{f"={name}": weight for name, weight in query.names.items()}}


def known_terms(names: Collection[str], query: Query) -> dict[str, tuple[str, ...]]:
    """The query terms that stand for names of the file; names without any are omitted."""
    begins = {
        word[:-1] or word for word in query.words
    }  # all of a stem but its last letter is unchanged in the word
    if not begins:
        return {}
    likely = re.compile("|".join(map(re.escape, sorted(begins))), re.IGNORECASE).search
    found = {}
    for name in names:
        if likely(name) and (terms := _terms(name, query)):
            found[name] = terms
    return found


def _terms(name: str, query: Query) -> tuple[str, ...]:
    own = [part for part in dict.fromkeys(parts(name)) if part in query.words]
    return (*own, f"={name.lower()}") if name.lower() in query.names else tuple(own)


def _count(words: Mapping[str, int], known: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
    """How often each term is in a text with these words."""
    count: dict[str, float] = {}
    for word in words.keys() & known.keys():
        for term in known[word]:
            count[term] = count.get(term, 0.0) + words[word]
    return count


def _add_symbols(
    counts: Sequence[tuple[dict[str, float], int]],
    spans: Sequence[tuple[int, int]],
    symbols: Sequence[Symbol],
    query: Query,
) -> None:
    """Count the names of definitions where they begin and, less, as far as they go."""
    known = known_terms({word for symbol in symbols for word in WORD.findall(symbol.name)}, query)
    ends = [last for _, last in spans]
    for symbol in symbols:
        terms = {term for word in WORD.findall(symbol.name) for term in known.get(word, ())}
        if not terms:
            continue
        first = bisect_left(ends, symbol.first_line)
        for number in range(first, min(len(spans), first + 64)):
            if spans[number][0] > symbol.last_line:
                break
            for term in terms:
                count = counts[number][0]
                count[term] = count.get(term, 0.0) + (BEGINS if number == first else HOLDS)


def _add_quotes(result: list[float], texts: Sequence[str], quotes: Sequence[str]) -> None:
    for quote in quotes:
        holding = [number for number, text in enumerate(texts) if quote in text]
        for number in holding:
            result[number] += QUOTE / len(holding)


UNIT_BYTES = 1_600  # of a segment; measured with bench/large: larger ones waste room, smaller ones are torn


@dataclass(frozen=True)
class Unit:
    """Lines `first` to `last` of a file (from 1, both inclusive). `columns` is the character range of a piece of one
    line (from 0, end exclusive), None for whole lines."""

    first: int
    last: int
    text: str
    columns: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=4)  # the prompts of one edit, and the benchmark, ask for the same file more than once
def units(path: str, text: str) -> tuple[Unit, ...]:
    """The segments of a text with plain newlines, in order; lines longer than a segment in pieces."""
    from repoagent.split.splitter import segments

    data = text.encode("utf-8", "surrogatepass")
    found: list[Unit] = []
    column = 0  # in the line where the next segment begins
    for segment in segments(path, data, target=UNIT_BYTES):
        part = data[segment.start : segment.end].decode("utf-8", "replace")
        for unit in _whole_lines(segment.first_line, column, part):
            found.append(unit)
            column = 0 if unit.text.endswith("\n") else unit.columns[1] if unit.columns else len(unit.text)
    return tuple(_marked(found))


def _whole_lines(first: int, column: int, text: str) -> Iterator[Unit]:
    """The text of a segment with its pieces of lines apart: what precedes the first newline when it begins inside
    a line, and lines that are too long."""
    at, line = 0, first
    start, start_line = 0, first  # of the whole lines that are being gathered
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        inside = column if at == 0 else 0
        if inside or end - at > UNIT_BYTES:
            if start < at:
                yield Unit(start_line, line - 1, text[start:at])
            for piece in range(at, end, UNIT_BYTES):
                stop = min(end, piece + UNIT_BYTES)
                yield Unit(line, line, text[piece:stop], (inside + piece - at, inside + stop - at))
            start, start_line = end, line + 1
        line += 1
        at = end
    if start < len(text):
        yield Unit(start_line, line - 1, text[start:])


def _marked(found: list[Unit]) -> Iterator[Unit]:
    """The units, those that end inside a line marked as pieces of it too."""
    for unit, after in zip_longest(found, found[1:]):
        goes_on = after is not None and after.columns and after.columns[0] and unit.last == after.first
        if not goes_on or unit.columns is not None:
            yield unit
            continue
        *whole, tail = unit.text.split("\n")
        if whole:
            yield Unit(unit.first, unit.last - 1, "".join(f"{line}\n" for line in whole))
        yield Unit(unit.last, unit.last, tail, (0, len(tail)))


COMMITS = 10
MOST = 10 << 20  # bytes of all the versions that are compared
_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_OPTIONS = (
    "log", "--no-follow", "--no-merges", "--no-notes", "--no-decorate", "--no-color", "--no-ext-diff",
    "--no-textconv", "--no-renames", "-p", "-U0", "--format=%x01",
)  # fmt: skip

# First and last line (from 1, in the text of that commit) and the age: 0 for the last commit, 1 for the one before.
Touched = tuple[int, int, int]


def recently_touched(worktree: WorkTree, path: str, size: int, since: int | None) -> tuple[Touched, ...]:
    """The lines that the last commits of a file of `size` bytes added or changed: COMMITS, fewer for a huge file, none
    before `since` (seconds since 1970).

    Line numbers are those of each commit, which is accurate enough for a neighborhood.
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


HEAD_BYTES = 1_200  # of the beginning of the file, which says what it is; at least these, in whole lines
NEIGHBOR = 0.2  # of the score of the segments next to one
RECENT, OLDER = 0.2, 0.8  # of the best score for what the last commit touched; of that for each commit before
NAMED = 1.0  # of the best score for a definition that the request names
MOST_NAMED = 12
FLOOR = 0.2  # of the best score: what has less to do with the request is not worth its tokens
FEW = 20  # lines that are added where a part breaks off inside a function
POINTED, AROUND = 1e6, 1e4  # where the user pointed at lines, and the definition around them


@dataclass(frozen=True)
class About:
    """What decides which parts matter: the request, the lines that the user pointed at (from 1, both inclusive), and
    those that recent commits touched."""

    request: str
    places: tuple[tuple[int, int], ...] = ()
    recent: tuple[Touched, ...] = ()


def choose(
    path: str, units: Sequence[Unit], symbols: Sequence[Symbol], about: About, room: int
) -> list[Unit]:
    """The parts to show, in file order, adjacent ones merged; at most about `room` bytes.

    The beginning of the file is always included; then what was pointed at, then what the request is most about.
    """
    if not units:
        return []
    ranked = _ranked(path, units, symbols, about)
    chosen: dict[int, Unit] = {}
    head = _beginning(units[0], min(HEAD_BYTES, room // 4))
    spare = room // 16  # for completing them
    left = room - head.size - spare
    best = max((score for score in ranked if score < AROUND), default=0.0)
    for number in sorted(range(len(units)), key=lambda number: (-ranked[number], number)):
        if best and ranked[number] < FLOOR * best and len(chosen) > 1:
            break
        if about.places and ranked[number] < AROUND and left < room // 2:
            break  # the user has said where
        unit = units[number]
        if unit.size > left and ranked[number] >= AROUND and left > room // 8:
            unit = _beginning(unit, left)
        if unit.size <= left:
            chosen[number] = unit
            left -= unit.size
        if left < room // 64:
            break
    if 0 not in chosen:
        chosen[0] = head
    else:
        left += head.size
    parts = _joined(chosen[number] for number in sorted(chosen))
    return _joined(_completed(parts, "".join(unit.text for unit in units), symbols, left + spare))


def _completed(parts: Sequence[Unit], text: str, symbols: Sequence[Symbol], left: int) -> Iterator[Unit]:
    """The parts, with the lines of a function that a part begins or ends in where only a few are missing, as far as
    there is room."""
    rows = [f"{row}\n" for row in text.split("\n")]
    rows[-1] = rows[-1][:-1]
    spans = [(s.first_line, s.last_line) for s in symbols if s.kind in ("function", "method")]
    low = 1  # the first line that no part before this one has
    for part, after in zip_longest(parts, parts[1:]):
        high = after.first - 1 if after else len(rows)
        begins = [a for a, b in spans if max(low, part.first - FEW) <= a < part.first <= b]
        ends = [b for a, b in spans if a <= part.last < b <= min(high, part.last + FEW)]
        for first, last in ((part.first, max(ends, default=0)), (min(begins, default=0), part.last)):
            if not (first and last) or part.columns is not None:
                continue
            first, last = min(first, part.first), max(last, part.last)
            more = Unit(first, last, "".join(rows[first - 1 : last]))
            if more.size - part.size <= left:
                left -= more.size - part.size
                part = more
        low = part.last + 1
        yield part


def _ranked(path: str, units: Sequence[Unit], symbols: Sequence[Symbol], about: About) -> list[float]:
    query = read_query(about.request, path)
    spans = [(unit.first, unit.last) for unit in units]
    plain = scores([unit.text for unit in units], spans, symbols, query)
    best = max(plain) or 1.0
    last = len(units) - 1
    result = [
        score + NEIGHBOR * max(plain[max(0, number - 1)], plain[min(last, number + 1)])
        for number, score in enumerate(plain)
    ]
    bonus = [0.0] * len(units)
    for first, end, age in about.recent:
        for number in {*_holding(spans, first, first), *_holding(spans, end, end)}:
            bonus[number] = max(bonus[number], RECENT * OLDER**age)
    named = _named(symbols, about.request)
    for symbol in named:
        for row, number in enumerate(_holding(spans, symbol.first_line, symbol.last_line)):
            bonus[number] += NAMED / (1 + row / 2) / len(named) ** 0.5
    result = [score + best * extra for score, extra in zip(result, bonus, strict=True)]
    for first, end in (*about.places, *query.lines):
        _point(result, spans, symbols, first, end)
    return result


def _named(symbols: Sequence[Symbol], request: str) -> Sequence[Symbol]:
    """The definitions that the request names for sure, if they are few."""
    found = mentioned(symbols, request, limit=150, sure=True)
    return found if len(found) <= MOST_NAMED else []


def _point(
    result: list[float], spans: Sequence[tuple[int, int]], symbols: Sequence[Symbol], first: int, last: int
) -> None:
    """Raise what holds these lines above all else, then what is next to, then the function around them."""
    here = _holding(spans, first, last)
    for row, number in enumerate(here):
        result[number] += POINTED - row
    for number in {max(0, here[0] - 1), min(len(spans) - 1, here[-1] + 1)} - {*here}:
        result[number] += AROUND
    around = [s for s in symbols if s.first_line <= first <= s.last_line and s.kind in ("function", "method")]
    for symbol in around[-1:]:
        for number in _holding(spans, symbol.first_line, symbol.last_line):
            if number not in here:
                result[number] += AROUND - min(abs(number - end) for end in (here[0], here[-1]))


def _holding(spans: Sequence[tuple[int, int]], first: int, last: int) -> range:
    """The numbers of the segments that hold lines `first` to `last`; the last one for lines after the end."""
    start = min(bisect_left(spans, first, key=lambda span: span[1]), len(spans) - 1)
    end = bisect_right(spans, last, lo=start, key=lambda span: span[0])
    return range(start, max(start + 1, end))


def _beginning(unit: Unit, size: int) -> Unit:
    """As many of its first lines as have that many bytes, at least one; or as many characters of a piece of a line."""
    if unit.size <= size:
        return unit
    if unit.columns is not None:
        start = unit.columns[0]
        text = unit.text[:size]
        return Unit(unit.first, unit.last, text, (start, start + len(text)))
    lines = unit.text.splitlines(keepends=True)
    kept = [lines[0]]
    for line in lines[1:]:
        size -= len(kept[-1].encode("utf-8", "surrogatepass"))
        if size < len(line):
            break
        kept.append(line)
    return Unit(unit.first, unit.first + len(kept) - 1, "".join(kept))


def _joined(units: Iterable[Unit]) -> list[Unit]:
    """Units that follow each other as one."""
    found: list[Unit] = []
    for unit in units:
        before = found[-1] if found else None
        if (
            before is not None
            and before.columns is None
            and unit.columns is None
            and unit.first == before.last + 1
        ):
            found[-1] = Unit(before.first, unit.last, before.text + unit.text)
        elif (
            before is not None and before.columns and unit.columns
            and (before.last, before.columns[1]) == (unit.first, unit.columns[0])
        ):  # fmt: skip
            found[-1] = Unit(
                before.first, unit.last, before.text + unit.text, (before.columns[0], unit.columns[1])
            )
        else:
            found.append(unit)
    return found


LOOSE_LEVELS = frozenset({"fuzzy-context", "elision"})
LINES_AROUND = 20  # lines that are worth reading on both sides


def guessed(
    placements: Iterable[Placement], draft: Draft, seen: Mapping[str, Sequence[tuple[int, int]]]
) -> str:
    """A sentence for the model if a hunk goes to lines outside those that it has `seen` (by path, for files not shown
    whole; from 1, both inclusive) without quoting them exactly, or "".

    Lines that are quoted exactly are known. Files that were changed already are not judged: their lines have moved.
    """
    changed = {edit.path for edit in draft.edits}
    for place in placements:
        if place.level == "whole-file" and seen.get(place.path) == []:
            return f"Not applied: {place.path} exists and you have not seen it. Read it first."
        if (
            place.path not in seen
            or place.path in changed
            or not LOOSE_LEVELS & {place.level, *place.tolerances}
        ):
            continue
        if any(first <= place.line <= last for first, last in seen[place.path]):
            continue
        return (
            f"Not applied: hunk {place.hunk} of {place.path} would go to line {place.line}, which you have not seen, "
            f"and does not quote it exactly. Read it first, with "
            f'lines="{max(1, place.line - LINES_AROUND)}-{place.line + LINES_AROUND}".'
        )
    return ""
