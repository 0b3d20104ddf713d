"""The names of segment files: 001.py, 002.py; between two of them 001n.py. They sort as the segments do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from repoagent.split.artifact.schema import SUFFIX

_DIGITS = 3
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def suffix_of(path: str) -> str:
    """The suffix that the segments of `path` have: its own, if it is a plain one."""
    suffix = PurePosixPath(path).suffix
    return suffix if SUFFIX.fullmatch(suffix) else ""


def fresh(count: int, suffix: str) -> list[str]:
    """Names for `count` segments."""
    digits = max(_DIGITS, len(str(count)))
    return [f"{number:0{digits}}{suffix}" for number in range(1, count + 1)]


def fill(names: Sequence[str | None], suffix: str, taken: set[str]) -> list[str]:
    """`names` with one for each None, which sorts between its neighbours and is not in `taken`."""
    stems = [name.partition(".")[0] if name else "" for name in names]
    used = {name.partition(".")[0] for name in taken} | set(stems)
    digits = max((sum(map(str.isdigit, stem)) for stem in stems if stem), default=_DIGITS)
    start = 0
    while start < len(stems):
        end = start
        while end < len(stems) and not stems[end]:
            end += 1
        if end > start:
            before = stems[start - 1] if start else "0" * digits
            stems[start:end] = _run(end - start, before, stems[end] if end < len(stems) else "", used)
        start = end + 1
    return [name or stem + suffix for name, stem in zip(names, stems, strict=True)]


def _run(count: int, before: str, after: str, used: set[str]) -> list[str]:
    """`count` stems in order after `before` and, if it is not "", before `after`; they are added to `used`."""
    found: list[str] = []
    while len(found) < count:
        stem = _between(found[-1] if found else before, after, used)
        used.add(stem)
        left = count - len(found) - 1
        if stem.isdigit() or not left:
            found.append(stem)
            continue
        first = _run(left // 2, found[-1] if found else before, stem, used)
        return [*found, *first, stem, *_run(left - left // 2, stem, after, used)]
    return found


def _between(before: str, after: str, used: set[str]) -> str:
    digits = before.rstrip(_LETTERS)
    letters = before[len(digits) :]
    following = f"{int(digits) + 1:0{len(digits)}}"
    if len(following) == len(digits) and following not in used and (not after or following < after):
        return following
    limit = after[len(digits) :] if after.startswith(digits) else ""
    while True:
        letters = _middle(letters, limit)
        if digits + letters not in used:
            return digits + letters


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
