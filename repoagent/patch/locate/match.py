"""Named tolerances, and where in a file a run of lines stands under each of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

from repoagent.patch.hunk import DELETE, Line

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


LEVELS: dict[str, Callable[[str], str]] = {
    EXACT: str,
    TRAILING_SPACE: str.rstrip,
    PUNCTUATION: _punctuation,
    WHITESPACE: _whitespace,
}
"""Each level maps a line to what is compared; what is equal at one level is equal at those after it."""


class FileIndex:
    """The lines of a file, looked up by text. Each level's table is made when first asked for."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._keys: dict[str, list[str]] = {}
        self._places: dict[str, dict[str, list[int]]] = {}

    def keys(self, level: str) -> list[str]:
        """Each line as this level compares it."""
        if level not in self._keys:
            self._keys[level] = [LEVELS[level](line) for line in self.lines]
        return self._keys[level]

    def places(self, level: str) -> dict[str, list[int]]:
        """Where each compared text stands, in order."""
        if level not in self._places:
            table: dict[str, list[int]] = {}
            for number, key in enumerate(self.keys(level)):
                table.setdefault(key, []).append(number)
            self._places[level] = table
        return self._places[level]

    def find(self, texts: Sequence[str], level: str) -> list[int]:
        """All rows (from 0) at which `texts` stand one after another; none for no texts."""
        if not texts or len(texts) > len(self.lines):
            return []
        wanted = [LEVELS[level](text) for text in texts]
        places, keys = self.places(level), self.keys(level)
        hits = [places.get(text, []) for text in wanted]
        rarest = min(range(len(wanted)), key=lambda number: len(hits[number]))
        starts = (row - rarest for row in hits[rarest])
        return [start for start in starts if start >= 0 and keys[start : start + len(wanted)] == wanted]


@lru_cache(maxsize=4)
def index_of(lines: tuple[str, ...]) -> FileIndex:
    """The index of a file's lines; that of the last few files is kept, as one answer is read in several ways."""
    return FileIndex(lines)


def find_old(old: Sequence[Line], index: FileIndex, level: str) -> list[int]:
    """The rows where a hunk's old side stands. White space inside quotes must be right in what it deletes."""
    rows = index.find([line.text for line in old], level)
    if level != WHITESPACE:
        return rows
    deleted = [(offset, line.text) for offset, line in enumerate(old) if line.kind == DELETE or line.held]
    return [row for row in rows if all(same_literals(text, index.lines[row + at]) for at, text in deleted)]


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
