"""Named tolerances, and where in a file a run of lines stands under each of them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    deleted = [(offset, line.text) for offset, line in enumerate(old) if line.kind == DELETE or line.held]
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
