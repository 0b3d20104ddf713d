"""Search for a sequence of lines, exactly or ignoring differences; decode escapes in all lines of an answer."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import lru_cache

from repoagent.dataclass import dataclass
from repoagent.patch.model import ADD, CONTEXT, DELETE, Hunk, HunkLine
from repoagent.patch.refusal import PatchError

EXACT, TRAILING_SPACE, PUNCTUATION, WHITESPACE = "exact", "trailing-space", "punctuation", "whitespace"
HTML, ELISION, SPLIT, FUZZY = "html", "elision", "split", "fuzzy-context"

_QUOTES = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
}
_NO_BREAK = dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " ")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_PLAIN = {**_QUOTES, **_NO_BREAK, **dict.fromkeys(_DASHES, "-"), "\u2026": "..."}
_TYPOGRAPHY = str.maketrans({**_PLAIN, **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", None)})
_LITERAL = re.compile(r"\"[^\"]*\"?|'[^']*'?|`[^`]*`?")
_WORD = re.compile(r"\w+")


def _punctuation(text: str) -> str:
    return (text if text.isascii() else unicodedata.normalize("NFC", text.translate(_TYPOGRAPHY))).rstrip()


def without_spaces(text: str) -> str:
    """Return the key of a line at level WHITESPACE: its text without white space."""
    return "".join(_punctuation(text).split())


LEVELS: dict[str, Callable[[str], str]] = {
    EXACT: str,
    TRAILING_SPACE: str.rstrip,
    PUNCTUATION: _punctuation,
    WHITESPACE: without_spaces,
}
"""Each level maps a line to its key; lines equal at one level are equal at all later ones."""


class FileIndex:
    """The lines of a file, indexed for look-up by text. Keys and rows are computed on demand."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._keys: dict[str, list[str]] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._rows: dict[tuple[str, str], list[int]] = {}

    def keys(self, level: str) -> list[str]:
        if level not in self._keys:
            if level == WHITESPACE:
                self._keys[level] = ["".join(key.split()) for key in self.keys(PUNCTUATION)]
            else:
                self._keys[level] = list(map(LEVELS[level], self.lines))
        return self._keys[level]

    def counts(self, level: str) -> Counter[str]:
        if level not in self._counts:
            self._counts[level] = Counter(self.keys(level))
        return self._counts[level]

    def rows(self, key: str, level: str) -> list[int]:
        if (level, key) not in self._rows:
            keys = self.keys(level)
            rows: list[int] = []
            for _ in range(self.counts(level)[key]):
                rows.append(keys.index(key, rows[-1] + 1 if rows else 0))
            self._rows[level, key] = rows
        return self._rows[level, key]

    def find(self, texts: Sequence[str], level: str) -> list[int]:
        """Return all rows (from 0) at which the lines `texts` begin; [] if `texts` is empty."""
        if not texts or len(texts) > len(self.lines):
            return []
        keys, counts = [LEVELS[level](text) for text in texts], self.counts(level)
        if not all(key in counts for key in keys):
            return []
        rarest = min(range(len(keys)), key=lambda number: counts[keys[number]])
        starts = (row - rarest for row in self.rows(keys[rarest], level))
        all_keys = self.keys(level)
        return [start for start in starts if start >= 0 and all_keys[start : start + len(keys)] == keys]


@lru_cache(maxsize=4)
def index_of(lines: tuple[str, ...]) -> FileIndex:
    """Return the index of a file's lines, cached because the answer is parsed in several ways."""
    return FileIndex(lines)


def find_old(old: Sequence[HunkLine], index: FileIndex, level: str) -> list[int]:
    """Return the rows at which a hunk's old side begins.

    At level WHITESPACE, the text inside quotes in deleted lines must be equal, and so must the quotation marks, unless
    no row satisfies that.
    """
    rows = index.find([line.text for line in old], level)
    if level != WHITESPACE:
        return rows
    deleted = [
        (offset, line.text) for offset, line in enumerate(old) if line.kind == DELETE or line.rewritten
    ]
    for key in (str, _punctuation):
        equal = [
            row
            for row in rows
            if all(same_literals(key(text), key(index.lines[row + offset])) for offset, text in deleted)
        ]
        if equal:
            return equal
    return []


def same_literals(left: str, right: str) -> bool:
    """Whether two lines, equal except for white space, have equal words and equal text inside quotes."""
    left, right = left.strip(), right.strip()
    if left == right:
        return True
    return _LITERAL.findall(left) == _LITERAL.findall(right) and _WORD.findall(left) == _WORD.findall(right)


@lru_cache(maxsize=10_000)
def weight(text: str) -> int:
    """Return how distinctive a line is: its number of letters and digits, at most 20."""
    return min(20, sum(char.isalnum() for char in text))


def indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def depth_of(text: str) -> int:
    """Return the number of columns by which a line is indented."""
    return len(indent_of(text).expandtabs(4))


def is_blank(text: str) -> bool:
    return not text or text.isspace()


@dataclass(frozen=True)
class Placement:
    """The location of a hunk.

    hunk: the number of the hunk within its file, from 1.
    line: the first line in the old file, from 1.
    level: the level of the match, "search-replace" for a SEARCH/REPLACE block that fits exactly, or "whole-part" for
        lines sent as a whole; for the file itself, "whole-file", "new-file", "deleted", "renamed", "copied" or "mode".
    tolerances: all tolerances that the hunk needed, sorted.
    """

    path: str
    hunk: int
    line: int
    level: str
    tolerances: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowChange:
    """Replaces the rows `start:end` of the file with `added`."""

    start: int
    end: int
    added: tuple[HunkLine, ...]


@dataclass(frozen=True)
class Match:
    """A possible location of a hunk.

    `rows[i]` is the row (from 0) of `hunk.old[i]`, None if the file has no such row. `hunk` is the reading of the hunk
    that fits. `behind` is how far a loose match's score is below the best score.
    """

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

    def changes(self) -> list[RowChange]:
        """Return the changes in the file's lines.

        Raises PatchError for an addition without a located line next to it.
        """
        result: list[RowChange] = []
        position = at = 0
        lines = self.hunk.lines
        while at < len(lines):
            if lines[at].kind == CONTEXT:
                position, at = position + 1, at + 1
                continue
            first = position
            added: list[HunkLine] = []
            while at < len(lines) and lines[at].kind != CONTEXT:
                if lines[at].kind == DELETE:
                    position += 1
                else:
                    added.append(lines[at])
                at += 1
            result.append(RowChange(*self._range(first, position), tuple(added)))
        return result

    def claimed(self) -> tuple[tuple[int, int], ...]:
        """Return the ranges (start, end) of rows that the match changes, or deletes and adds again."""
        rewritten = (
            (row, row + 1)
            for line, row in zip(self.hunk.old, self.rows, strict=True)
            if line.rewritten and row is not None
        )
        return (*((change.start, change.end) for change in self.changes()), *rewritten)

    def _range(self, first: int, last: int) -> tuple[int, int]:
        """The rows of `hunk.old[first:last]`, or the gap next to a neighbour with a row."""
        rows = [row for row in self.rows[first:last] if row is not None]
        if rows:
            return rows[0], rows[-1] + 1
        before = self.rows[first - 1] if first else None
        after = self.rows[last] if last < len(self.rows) else None
        if before is not None:
            return before + 1, before + 1
        if after is not None or not self.rows:
            return after or 0, after or 0
        text = "none of the unchanged lines next to an addition is in the file. Send the exact lines."
        raise PatchError("not-found", text, self.hunk.number)


_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#34|#x27|#x2F|#x60);", re.IGNORECASE)
_UNESCAPED = {HTML: re.compile(r"[<>]|&(?!\w+;|#\w+;)"), PUNCTUATION: re.compile("[\"']")}


def _decoder(dashes: dict[str, str]) -> Callable[[str], str]:
    table = str.maketrans({**_QUOTES, **_NO_BREAK, **dashes, "\u2026": "..."})
    return lambda text: text.translate(table)


_DECODERS: tuple[tuple[str, Callable[[str], str]], ...] = (
    (HTML, lambda text: _ENTITY.sub(lambda match: html.unescape(match[0]).replace("\u00a0", " "), text)),
    (PUNCTUATION, _decoder(dict.fromkeys(_DASHES, "-"))),
    (PUNCTUATION, _decoder(dict.fromkeys(_DASHES, "--"))),
    (PUNCTUATION, _decoder(dict.fromkeys("\u2014\u2015", "--"))),
)


def unescape(hunks: Sequence[Hunk], lines: Sequence[str]) -> list[Hunk]:
    """Return the hunks without HTML escapes or typographic punctuation that something added to the whole answer.

    The file must prove this: it contains some of the quoted lines only in unescaped form, and none as written. Added
    lines are then unescaped too, unless they contain characters that would have been escaped. Raises PatchError if it
    is unclear whether an added line is escaped.
    """
    result = list(hunks)
    in_file: frozenset[str] | None = None
    for name, decode in _DECODERS:
        affected = [(line.text, decode(line.text)) for hunk in result for line in hunk.old]
        affected = [(written, plain) for written, plain in affected if written != plain]
        if not affected:
            continue
        in_file = in_file or frozenset("".join(line.split()) for line in lines)
        as_written, as_decoded = (
            any("".join(pair[side].split()) in in_file for pair in affected) for side in (0, 1)
        )
        if not as_decoded or as_written:
            continue
        changed = (line for hunk in result for line in hunk.lines if line.kind != CONTEXT or line.rewritten)
        added_too = not any(_UNESCAPED[name].search(line.text) for line in changed)
        for number, hunk in enumerate(result):
            decoded = tuple(
                replace(line, text=decode(line.text)) if added_too or line.kind != ADD else line
                for line in hunk.lines
            )
            if decoded != hunk.lines:
                section, tolerances = decode(hunk.section), hunk.tolerances | {name}
                result[number] = replace(hunk, lines=decoded, section=section, tolerances=tolerances)
    for hunk in result:
        # Escapes in added lines, none in the file, and in no hunk a character that would be escaped.
        if (
            any(_ENTITY.search(line.text) for line in hunk.added)
            and not any(
                _UNESCAPED[HTML].search(line.text) or (line.kind != ADD and "&" in line.text)
                for any_hunk in result
                for line in any_hunk.lines
            )
            and not any(map(_ENTITY.search, lines))
        ):
            raise PatchError(
                "escaped",
                "the added lines contain HTML escapes such as `&lt;`, which may or may not be literal. Send "
                "the hunk with an unchanged line of the file that contains <, > or &.",
                hunk.number,
            )
    return result
