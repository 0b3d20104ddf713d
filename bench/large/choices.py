"""Ways to choose what of a large file is shown: repoagent's, and what anybody would think of first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.large.cases import Case, git
from repoagent.edit.prompt.large_files import MAP_BYTES, PARTS_BYTES, Budget, Excerpt, excerpt_of
from repoagent.edit.prompt.relevance import COMMITS, About, Touched, Unit, choose, units
from repoagent.edit.small_models.excerpts import find_windows

WINDOW_LINES = 150  # as a small model is shown
AROUND = 15  # lines on both sides of one that matches
_HUNK = re.compile(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """The lines that a way shows (from 1), and the bytes of all that it shows."""

    lines: frozenset[int]
    size: int


Way = Callable[[Case, bytes], Shown]


def ours(case: Case, data: bytes) -> Shown:
    return _shown(
        excerpt_of(case.path, data, About(case.request, (), _touched(case)), Budget(PARTS_BYTES, MAP_BYTES))
    )


def without_history(case: Case, data: bytes) -> Shown:
    return _shown(excerpt_of(case.path, data, About(case.request), Budget(PARTS_BYTES, MAP_BYTES)))


def words_alone(case: Case, data: bytes) -> Shown:
    """Ours without symbols: definitions count as any other words do, and there is no outline."""
    found = units(case.path, data.decode("utf-8", "replace"))
    parts = choose(case.path, found, (), About(case.request, (), _touched(case)), PARTS_BYTES)
    return _parts(parts, 0)


def _shown(found: Excerpt) -> Shown:
    return _parts(found.parts, len(found.outline.encode()))


def _parts(parts: Sequence[Unit], outline: int) -> Shown:
    lines = {line for part in parts for line in range(part.first, part.last + 1)}
    return Shown(frozenset(lines), sum(part.size for part in parts) + outline)


def beginning(case: Case, data: bytes) -> Shown:
    """The first bytes, as many as ours may show."""
    return _lines(data, range(1, data.count(b"\n") + 2))


def matches(case: Case, data: bytes) -> Shown:
    """Lines with the words of the request and what is around them; lines with the most words of it first."""
    words = [word.lower().encode() for word in set(re.findall(r"\w{3,}", case.request))]
    lines = data.lower().split(b"\n")
    scored = [(sum(word in line for word in words), number) for number, line in enumerate(lines, 1)]
    best = sorted((-count, number) for count, number in scored if count)
    return _lines(
        data,
        (line for _, at in best for line in range(max(1, at - AROUND), min(len(lines), at + AROUND) + 1)),
    )


def windows(case: Case, data: bytes) -> Shown:
    """What a small model is shown: definitions that the request names."""
    found = find_windows(case.path, data, case.request, (), WINDOW_LINES)
    return _lines(data, (line for window in found for line in range(window.first, window.last + 1)))


def _lines(data: bytes, wanted: Iterable[int]) -> Shown:
    """The first of these lines, as far as there is room."""
    lines = data.split(b"\n")
    taken: set[int] = set()
    size = 0
    for line in wanted:
        if line in taken or line > len(lines):
            continue
        size += len(lines[line - 1]) + 1
        if size > PARTS_BYTES + MAP_BYTES:
            size -= len(lines[line - 1]) + 1
            break
        taken.add(line)
    return Shown(frozenset(taken), size)


def _touched(case: Case) -> tuple[Touched, ...]:
    """As the product looks, from the commit before the case."""
    text = git(
        case.top, "log", "--no-merges", "--no-renames", "-p", "-U0", "--format=%x01", "-n", str(COMMITS),
        f"{case.commit}^", "--", case.path,
    )  # fmt: skip
    return tuple(
        (int(first), int(first) + max(0, int(count or 1) - 1), age)
        for age, patch in enumerate(text.split(b"\x01")[1:])
        for first, count in _HUNK.findall(patch)
    )


WAYS: dict[str, Way] = {
    "repoagent": ours,
    "the same without history": without_history,
    "the same by words alone": words_alone,
    "lines that match": matches,
    "the beginning": beginning,
    "windows": windows,
}
