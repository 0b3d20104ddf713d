"""Give a file to the splitters and put down what became of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from bench.split.corpus import File
from bench.split.costs import peaks, seconds
from bench.split.edits import changed, edits
from bench.split.marks import Verdict, judged
from bench.split.splitters import GRAMMARS, OURS, Splitter, ours

TINY = 8  # a segment below this part of the target is tiny


@dataclass(frozen=True)
class Result:
    """What one splitter made of one file. Empty lists are of what was not measured."""

    splitter: str
    kind: str
    name: str
    size: int
    exact: bool
    verdicts: tuple[Verdict, ...] = ()
    sizes: tuple[int, ...] = ()
    over: int = 0  # longer than the maximum though a line end is in them
    cpu: float = 0.0
    parse: float = 0.0
    changed: list[int] = field(default_factory=list)
    refreshed: list[int] = field(default_factory=list)
    memory: float | None = None  # MiB over the parse


@dataclass(frozen=True)
class Settings:
    target: int
    seed: int
    edits: int = 0
    timed: bool = False
    memory: bool = False


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
        *_edited(file, name, splitter, settings), _memory(file, name, settings),
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

    anew = changed(data, changes, plain, keep=False)
    return anew, changed(data, changes, refreshed, keep=True) if name == OURS else []


def _memory(file: File, name: str, settings: Settings) -> float | None:
    if not settings.memory or name != OURS or file.source.kind not in GRAMMARS:
        return None
    split, parse = peaks(file.source.kind, file.source.path, file.data, settings.target)
    return split - parse
