"""The names of segment files: 001.py, 002.py; between two of them 001n.py. They sort as the segments do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from repoagent.split.artifact.schema import SUFFIX

_DIGITS = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MORE = 25  # all but the first: nothing would sort before a name that ends in it


def suffix_of(path: str) -> str:
    """The suffix that the segments of `path` have: its own, if it is a plain one."""
    suffix = PurePosixPath(path).suffix
    return suffix if SUFFIX.fullmatch(suffix) else ""


def fill(names: Sequence[str | None], suffix: str) -> list[str]:
    """`names` with one for each None, which sorts between its neighbours."""
    stems = [name.partition(".")[0] if name else "" for name in names]
    first = next((stem.rstrip(_LETTERS) for stem in stems if stem), "")
    before = "0" * (len(first) or max(_DIGITS, len(str(len(names)))))
    start = 0
    while start < len(stems):
        end = next((number for number in range(start, len(stems)) if stems[number]), len(stems))
        stems[start:end] = _between(before, stems[end] if end < len(stems) else "", end - start)
        before, start = stems[min(end, len(stems) - 1)], end + 1
    return [name or stem + suffix for name, stem in zip(names, stems, strict=True)]


def _between(before: str, after: str, count: int) -> list[str]:
    """`count` stems in order after `before` and, if it is not "", before `after`: numbers, or else letters."""
    digits = before.rstrip(_LETTERS)
    limit = int(after.rstrip(_LETTERS)) if after else 10 ** len(digits)
    if int(digits) + count < limit:
        return [f"{int(digits) + number:0{len(digits)}}" for number in range(1, count + 1)]
    stem = digits + _middle(before[len(digits) :], after[len(digits) :] if after.startswith(digits) else "")
    width = 0
    while _MORE**width < count:
        width += 1
    places = [_MORE**place for place in reversed(range(width))]
    return [
        stem + "".join(_LETTERS[1 + number // place % _MORE] for place in places) for number in range(count)
    ]


def _middle(low: str, high: str) -> str:
    """A word between two, as a fraction between two fractions in base 26; "" for `high` is one."""
    word = ""
    place = 0
    while True:
        least = _LETTERS.index(low[place]) if place < len(low) else 0
        most = _LETTERS.index(high[place]) if place < len(high) else len(_LETTERS)
        if most - least > 1:
            return word + _LETTERS[(least + most) // 2]
        word += _LETTERS[least]
        if most > least:
            high = ""
        place += 1
