"""Exact and tolerant search for a run of lines, candidate places, and the headings after `@@`."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from repoagent.dataclass import dataclass
from repoagent.patch.errors import PatchError
from repoagent.patch.model import CONTEXT, DELETE, Hunk, Line

EXACT, TRAILING_SPACE, PUNCTUATION, WHITESPACE = "exact", "trailing-space", "punctuation", "whitespace"
HTML, ELISION, SPLIT, FUZZY = "html", "elision", "split", "fuzzy-context"

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", None),
        "\u2026": "...",
    }
)


_LITERAL = re.compile(r"\"[^\"]*\"?|'[^']*'?|`[^`]*`?")
_WORD = re.compile(r"\w+")


def _punctuation(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFC", text.translate(_TYPOGRAPHY))).rstrip()


def _whitespace(text: str) -> str:
    return "".join(_punctuation(text).split())


_SPACES = "\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def _all_punctuation(lines: Sequence[str]) -> list[str]:
    """`_punctuation` of each line, of all at once: `str.translate` looks up each character that is not ASCII."""
    whole = "\n".join(lines)
    if whole.isascii():
        return list(map(str.rstrip, lines))
    for char, plain in _TYPOGRAPHY.items():
        whole = whole.replace(chr(char), plain or "")
    return list(map(str.rstrip, unicodedata.normalize("NFC", whole).split("\n")))


def _all_whitespace(lines: Sequence[str]) -> list[str]:
    """Lines without any white space, all at once."""
    whole = "\n".join(lines)
    for space in () if whole.isascii() else _SPACES:
        whole = whole.replace(space, "")
    bare = whole.encode("utf-8", "surrogatepass").translate(None, b" \t\r\v\f\x1c\x1d\x1e\x1f")
    return bare.decode("utf-8", "surrogatepass").split("\n") if lines else []


LEVELS: dict[str, Callable[[str], str]] = {
    EXACT: str,
    TRAILING_SPACE: str.rstrip,
    PUNCTUATION: _punctuation,
    WHITESPACE: _whitespace,
}
"""Each level maps a line to what is compared; what is equal at one level is equal at those after it."""


class Places(Mapping[str, list[int]]):
    """Where each text stands, in order: counted for all, looked up when asked for. A list for each line of a large
    file would cost more than all else."""

    def __init__(self, keys: list[str]) -> None:
        self.counts = Counter(keys)
        self._keys = keys
        self._rows: dict[str, list[int]] = {}

    def __getitem__(self, key: str) -> list[int]:
        if key not in self.counts:
            raise KeyError(key)
        if key not in self._rows:
            rows = [self._keys.index(key)]
            while len(rows) < self.counts[key]:
                rows.append(self._keys.index(key, rows[-1] + 1))
            self._rows[key] = rows
        return self._rows[key]

    def __contains__(self, key: object) -> bool:
        return key in self.counts

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)


class FileIndex:
    """The lines of a file, looked up by text. Each level's table is made when first asked for; levels at which all
    lines compare alike share one."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._keys: dict[str, list[str]] = {}
        self._places: dict[int, Places] = {}

    def keys(self, level: str) -> list[str]:
        """Each line as this level compares it."""
        if level not in self._keys:
            if level == WHITESPACE:
                keys = _all_whitespace(self.keys(PUNCTUATION))
            elif level == PUNCTUATION:
                keys = _all_punctuation(self.lines)
            else:
                keys = list(map(LEVELS[level], self.lines))
            self._keys[level] = next((known for known in self._keys.values() if known == keys), keys)
        return self._keys[level]

    def places(self, level: str) -> Places:
        """Where each compared text stands, in order."""
        keys = self.keys(level)
        if id(keys) not in self._places:
            self._places[id(keys)] = Places(keys)
        return self._places[id(keys)]

    def find(self, texts: Sequence[str], level: str) -> list[int]:
        """All rows (from 0) at which `texts` stand one after another; none for no texts."""
        if not texts or len(texts) > len(self.lines):
            return []
        wanted = [LEVELS[level](text) for text in texts]
        places, keys = self.places(level), self.keys(level)
        if not all(text in places for text in wanted):
            return []
        rarest = min(range(len(wanted)), key=lambda number: places.counts[wanted[number]])
        starts = (row - rarest for row in places[wanted[rarest]])
        return [start for start in starts if start >= 0 and keys[start : start + len(wanted)] == wanted]


@lru_cache(maxsize=4)
def index_of(lines: tuple[str, ...]) -> FileIndex:
    """The index of a file's lines; that of the last few files is kept, as one answer is read in several ways."""
    return FileIndex(lines)


def find_old(old: Sequence[Line], index: FileIndex, level: str) -> list[int]:
    """The rows where a hunk's old side stands. White space inside quotes must be right in what it deletes; the quotes
    themselves where there is a row with such."""
    rows = index.find([line.text for line in old], level)
    if level != WHITESPACE:
        return rows
    deleted = [
        (offset, line.text) for offset, line in enumerate(old) if line.kind == DELETE or line.rewritten
    ]
    for key in (str, _punctuation):
        found = [
            row for row in rows if all(same_literals(key(t), key(index.lines[row + at])) for at, t in deleted)
        ]
        if found:
            return found
    return []


def same_literals(one: str, other: str) -> bool:
    """Are two lines, equal but for white space, equal inside their quotes too, and parted into the same words?"""
    one, other = one.strip(), other.strip()
    if one == other:
        return True
    return _LITERAL.findall(one) == _LITERAL.findall(other) and _WORD.findall(one) == _WORD.findall(other)


@lru_cache(maxsize=10_000)
def weight(text: str) -> int:
    """How much a line tells about its place: its letters and digits, at most 20."""
    return min(20, sum(char.isalnum() for char in text))


def indent_of(text: str) -> str:
    """The white space before the text."""
    return text[: len(text) - len(text.lstrip())]


def is_blank(text: str) -> bool:
    return not text or text.isspace()


@dataclass(frozen=True)
class Placement:
    """Where a hunk went: file, hunk (from 1 within the file), first line (from 1, of the file before) and the
    name of the tolerance that it needed: "exact", "trailing-space", "punctuation", "whitespace", "html",
    "elision", "split" or "fuzzy-context"; "search-replace" for such a block that fits exactly;
    "whole-part" for lines that came again as a whole; and for a file as a whole "whole-file", "new-file",
    "deleted", "renamed", "copied", "mode". `tolerances` are all that it needed, reading included, sorted."""

    path: str
    hunk: int
    line: int
    level: str
    tolerances: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """Rows `start:end` of the file become `added`."""

    start: int
    end: int
    added: tuple[Line, ...]


@dataclass(frozen=True)
class Match:
    """`rows[i]` is the file's line (from 0) that `hunk.old[i]` is taken for, None where it is taken for none.

    `hunk` is the reading of the hunk that fits here (see `locate.readings`); `behind` is how much worse a loose place
    fits than the best one."""

    hunk: Hunk
    rows: tuple[int | None, ...]
    level: str
    behind: float = field(default=0.0, compare=False)

    @property
    def first(self) -> int:
        return next((row for row in self.rows if row is not None), 0)

    @property
    def last(self) -> int:
        return next((row for row in reversed(self.rows) if row is not None), 0)

    def changes(self) -> list[Change]:
        """The changes in the file's lines. Raises PatchError for an addition that no line next to it holds."""
        result: list[Change] = []
        position = at = 0
        lines = self.hunk.lines
        while at < len(lines):
            if lines[at].kind == CONTEXT:
                position, at = position + 1, at + 1
                continue
            first = position
            added: list[Line] = []
            while at < len(lines) and lines[at].kind != CONTEXT:
                if lines[at].kind == DELETE:
                    position += 1
                else:
                    added.append(lines[at])
                at += 1
            result.append(Change(*self._range(first, position), tuple(added)))
        return result

    def claimed(self) -> tuple[tuple[int, int], ...]:
        """The rows `start:end` that it changes, or says it leaves as they are by adding again what it deletes."""
        rewritten = (
            (row, row + 1)
            for line, row in zip(self.hunk.old, self.rows, strict=True)
            if line.rewritten and row is not None
        )
        return (*((change.start, change.end) for change in self.changes()), *rewritten)

    def _range(self, first: int, last: int) -> tuple[int, int]:
        """The rows of `hunk.old[first:last]`; for none, the gap next to a neighbour with a row."""
        taken = [row for row in self.rows[first:last] if row is not None]
        if taken:
            return taken[0], taken[-1] + 1
        before = self.rows[first - 1] if first else None
        after = self.rows[last] if last < len(self.rows) else None
        if before is not None:
            return before + 1, before + 1
        if after is not None or not self.rows:
            return after or 0, after or 0
        raise PatchError(
            "not-found", "none of the unchanged lines next to an addition is in the file.", self.hunk.number
        )


_KEYWORD = (
    r"(?:class|def|fn|func|function|fun|interface|struct|enum|trait|impl|module|namespace|object|type|record"
    r"|method)"
)
_NAME = r"[A-Za-z_$][\w$]*"
_PARTED = re.compile(r"[ \t]+(?:>|»|→|›|::|/)[ \t]+")
_DOTTED = re.compile(
    rf"(?:{_KEYWORD}[ \t]+)?({_NAME}(?:(?:\.|::|#){_NAME})+)[ \t]*(?:\([^()]*\))?[ \t]*[:{{]?$"
)
_PART = re.compile(
    rf"(?:[\w$]+[ \t]+)*?{_KEYWORD}[ \t]+({_NAME})\b|({_NAME})[ \t]*(?:\([^()]*\))?[ \t]*[:{{]?$"
)


def under_heading(section: str, matches: Sequence[Match], index: FileIndex) -> Sequence[Match] | None:
    """The fits that stand under the line which the hunk's header quotes, or within the definitions that it names one in
    another (`class A > def f(self):`, `A.f`); None when there is no such line."""
    wanted = LEVELS[WHITESPACE](section)
    if len(wanted) < 3:
        return None
    keys = index.keys(WHITESPACE)
    headings = {
        row for row, key in enumerate(keys) if key.startswith(wanted) or (len(key) > 5 and wanted == key)
    }
    if headings:
        return _below(headings, matches, index.lines)
    names = _path(section)
    found = [set(_defining(name, index.lines)) for name in names]
    if not found or not all(found):
        return None
    for rows in found:
        matches = _below(rows, matches, index.lines)
    return matches


def _below(headings: set[int], matches: Sequence[Match], lines: Sequence[str]) -> Sequence[Match]:
    """The fits for which the nearest line above that could be a heading like those is one of them.

    The reach of a heading ends at a line of the same depth or less that starts with a letter, or as it does (with a
    quote in JSON).
    """
    depth = min(_depth(lines[heading]) for heading in headings)
    signs = {lines[heading].lstrip()[:1] for heading in headings}
    within: list[bool] = []
    inside = False
    for row, line in enumerate(lines):
        inside = inside or row in headings
        within.append(inside)
        text = line.lstrip()
        if row not in headings and text and (text[0].isalpha() or text[0] == "_" or text[0] in signs):
            inside = inside and _depth(line) > depth
    return [candidate for candidate in matches if within and within[min(candidate.first, len(within) - 1)]]


def _depth(line: str) -> int:
    return len(indent_of(line).expandtabs(4))


def _path(section: str) -> list[str]:
    """The names of definitions, outermost first, that a heading gives one in another; none for any other heading."""
    dotted = _DOTTED.match(section)
    if dotted is not None:
        return re.split(r"\.|::|#", dotted[1])
    parts = _PARTED.split(section)
    found = [_PART.match(part.strip()) for part in parts]
    names = [match[1] or match[2] for match in found if match is not None]
    return names if len(parts) > 1 and len(names) == len(parts) else []


def _defining(name: str, lines: Sequence[str]) -> Iterator[int]:
    """The rows that define `name`: with a keyword before it, or as a function with its brace."""
    sure = re.compile(rf"(?:[\w$]+[ \t]+)*?{_KEYWORD}[ \t]+(?:\([^()]*\)[ \t]*)?{re.escape(name)}(?![\w$])")
    method = re.compile(
        rf"(?:[\w$<>\[\],.*&?]+[ \t]+)*[*&]*{re.escape(name)}[ \t]*\([^(){{}};=]*\)[^(){{}};=]*(\{{?)$"
    )
    for row, line in enumerate(lines):
        if name not in line or len(line) > 400:
            continue
        text = line.strip()
        found = sure.match(text) or method.match(text)
        if found is None:
            continue
        below = lines[row + 1].strip() if row + 1 < len(lines) else ""
        if found.re is sure or found[1] or below == "{":
            yield row
