"""Split a file and record the verdicts on its cuts, the segments that local edits change, and CPU time.

CPU time is compared with that of only parsing the same bytes.
"""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from bench.split.corpus import File
from bench.split.marks import Verdict, judged
from bench.split.splitters import GRAMMARS, OURS, Splitter, grammar, ours
from repoagent.syntax.parser import clear_cache

TINY = 8  # a segment below target / TINY is tiny
LINES = 20  # maximum inserted, deleted or replaced by an edit
REPEATS = 3


@dataclass(frozen=True)
class Result:
    """The result of one splitter for one file; lists that were not measured are empty."""

    splitter: str
    kind: str
    name: str
    size: int
    exact: bool
    verdicts: tuple[Verdict, ...] = ()
    sizes: tuple[int, ...] = ()
    over: int = 0  # number of segments longer than the target
    cpu: float = 0.0  # seconds
    parse: float = 0.0  # seconds, 0 if not measured
    changed: list[int] = field(default_factory=list)
    refreshed: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    target: int
    seed: int
    edits: int = 0
    timed: bool = False


def measured(file: File, name: str, splitter: Splitter, settings: Settings) -> Result:
    source, data, target = file.source, file.data, settings.target
    start = time.process_time()
    pieces = splitter(source.kind, source.path, data, target)
    cpu, parse = time.process_time() - start, 0.0
    exact = b"".join(pieces) == data
    if not exact:
        return Result(name, source.kind, source.name, len(data), False)
    sizes = tuple(map(len, pieces))
    cuts = list(accumulate(sizes))[:-1]
    over = sum(len(piece) > target for piece in pieces)
    if settings.timed and name == OURS:
        cpu, parse = seconds(splitter, source.kind, source.path, data, target)
    verdicts = tuple(judged(file.marks, cuts, target))
    return Result(
        name, source.kind, source.name, len(data), True, verdicts, sizes, over, cpu, parse,
        *_edited(file, name, splitter, settings),
    )  # fmt: skip


def _edited(file: File, name: str, splitter: Splitter, settings: Settings) -> tuple[list[int], list[int]]:
    if not settings.edits:
        return [], []
    kind, path, data, target = file.source.kind, file.source.path, file.data, settings.target
    changes = edits(data, settings.edits, settings.seed)

    def plain(text: bytes, kept: Sequence[int]) -> list[bytes]:
        return splitter(kind, path, text, target)

    def refreshed(text: bytes, kept: Sequence[int]) -> list[bytes]:
        return ours(kind, path, text, target, kept)

    fresh = changed(data, changes, plain, keep=False)
    return fresh, changed(data, changes, refreshed, keep=True) if name == OURS else []


@dataclass(frozen=True)
class Edit:
    """`data[start:end]` becomes `new`."""

    start: int
    end: int
    new: bytes

    def applied(self, data: bytes) -> bytes:
        return data[: self.start] + self.new + data[self.end :]

    def carried(self, cuts: Sequence[int]) -> list[int]:
        """The offsets of `cuts` in the new text, without those inside the edit."""
        moved = len(self.new) - (self.end - self.start)
        return [
            cut if cut <= self.start else cut + moved for cut in cuts if cut <= self.start or cut >= self.end
        ]


def edits(data: bytes, count: int, seed: int) -> list[Edit]:
    """Insertions (a copy of the next lines), deletions and replacements (with other lines of the file), in turn."""
    chance = random.Random(f"{seed} {len(data)}")
    lines = data.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    drawn = []
    for number in range(count):
        size = min(chance.randint(1, LINES), len(lines))
        first = chance.randrange(len(lines) - size + 1)
        start, end = starts[first], starts[first + size]
        if number % 3 == 0:
            drawn.append(Edit(start, start, data[start:end]))
        elif number % 3 == 1:
            drawn.append(Edit(start, end, b""))
        else:
            other = chance.randrange(len(lines) - size + 1)
            drawn.append(Edit(start, end, data[starts[other] : starts[other + size]]))
    return [edit for edit in drawn if edit.applied(data) != data]


def changed(
    data: bytes, changes: Sequence[Edit], split: Callable[[bytes, Sequence[int]], list[bytes]], keep: bool
) -> list[int]:
    """For each edit, the number of segments of the new text that are not segments of the old. `split` gets a text and
    preferred cuts: with `keep` the old ones, else none."""
    before = split(data, ())
    cuts = list(accumulate(map(len, before)))[:-1]
    old = set(before)
    return [
        sum(piece not in old for piece in split(edit.applied(data), edit.carried(cuts) if keep else ()))
        for edit in changes
    ]


def parser(kind: str) -> Callable[[bytes], object]:
    import tree_sitter

    language = tree_sitter.Language(grammar(kind))
    return lambda data: tree_sitter.Parser(language).parse(data)


def _spent(call: Callable[[], object]) -> float:
    clear_cache()
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def seconds(splitter: Splitter, kind: str, path: str, data: bytes, target: int) -> tuple[float, float]:
    """CPU seconds of the split and of the parse (0 without a grammar): medians of alternating runs."""
    bare = parser(kind) if kind in GRAMMARS else None
    splits, parses = [], []
    for _ in range(REPEATS):
        splits.append(_spent(lambda: splitter(kind, path, data, target)))
        if bare:
            parses.append(_spent(lambda: bare(data)))
    return statistics.median(splits), statistics.median(parses) if parses else 0.0
