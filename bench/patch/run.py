"""Make the cases and measure them, in as many processes as are wanted."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.origins import Origin
from bench.patch.appliers import OURS, Result, available, baseline, ours, verdict, wrong_with
from bench.patch.corpus import make
from bench.patch.history import Repository
from bench.patch.model import Case

SAMPLED = 10  # of so many cases, one is asked of `git apply --check`
CHUNK = 25


@dataclass(frozen=True)
class Settings:
    origins: tuple[tuple[Origin, Path], ...]
    seed: int
    baselines: bool


@dataclass(frozen=True)
class Measured:
    """One case and what each applier made of it."""

    case: Case
    split: str
    ours: Result
    verdicts: dict[str, str] = field(default_factory=dict)
    ms: dict[str, float] = field(default_factory=dict)
    canonical: str = ""


def measure(case: Case, split: str, *, baselines: bool) -> Measured:
    result = ours(case)
    verdicts, ms = {OURS: verdict(case, result)}, {OURS: result.ms}
    for name, command in available().items() if baselines else ():
        other = baseline(case, command)
        verdicts[name], ms[name] = verdict(case, other), other.ms
    sampled = zlib.crc32(case.name.encode()) % SAMPLED == 0
    wrong = wrong_with(case, result.diff, git=sampled) if result.diff else ""
    return Measured(case, split, result, verdicts, ms, wrong)


def measured(settings: Settings, cases: Sequence[tuple[str, int]], jobs: int) -> Iterator[Measured | str]:
    """Each case in order; the kind alone where none could be made."""
    chunks = [cases[start : start + CHUNK] for start in range(0, len(cases), CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from _chunk(settings, chunk)
        for repository in _open.pop(settings, []):
            repository.close()
        return
    with ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(_chunk, [settings] * len(chunks), chunks):
            yield from found


_open: dict[Settings, list[Repository]] = {}


def _chunk(settings: Settings, cases: Sequence[tuple[str, int]]) -> list[Measured | str]:
    if settings not in _open:
        _open[settings] = [Repository(origin, path) for origin, path in settings.origins]
    repositories = _open[settings]
    splits = {origin.name: origin.split for origin, _ in settings.origins}
    made = ((kind, make(kind, number, settings.seed, repositories)) for kind, number in cases)
    return [
        kind if case is None else measure(case, splits[case.repository], baselines=settings.baselines)
        for kind, case in made
    ]
