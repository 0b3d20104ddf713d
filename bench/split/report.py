"""The tables of results, and the targets."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from bench.split.measure import TINY, Result
from bench.split.splitters import OURS


def good(results: Sequence[Result]) -> float:
    """The percentage of good cuts."""
    cuts = [verdict for one in results for verdict in one.verdicts]
    return 100 * sum(not verdict.kinds for verdict in cuts) / len(cuts) if cuts else 100.0


def orphans(results: Sequence[Result]) -> float:
    """The percentage of cuts between a comment and its target."""
    cuts = [verdict for one in results for verdict in one.verdicts]
    return 100 * sum("orphan" in verdict.kinds for verdict in cuts) / len(cuts) if cuts else 0.0


def in_definitions(results: Sequence[Result]) -> int:
    return sum(verdict.definition for one in results if one.kind == "python" for verdict in one.verdicts)


def fill(results: Sequence[Result], target: int) -> float:
    """The mean of size / target over all segments except the last of each file."""
    sizes = [size / target for one in results for size in one.sizes[:-1]]
    return statistics.fmean(sizes) if sizes else 0.0


def tiny(results: Sequence[Result], target: int) -> float:
    """The percentage of segments below target / TINY, including the last of each file."""
    sizes = [size for one in results for size in one.sizes]
    return 100 * sum(size < target / TINY for size in sizes) / len(sizes) if sizes else 0.0


def mean_of(results: Sequence[Result], figure: Callable[[Result], list[int]]) -> float | None:
    values = [value for one in results for value in figure(one)]
    return statistics.fmean(values) if values else None


def over_parse(results: Sequence[Result]) -> float | None:
    """The total CPU time of the timed splits / that of the parses; None if none was timed."""
    timed = [one for one in results if one.parse]
    return sum(one.cpu for one in timed) / sum(one.parse for one in timed) if timed else None


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def splitters(results: Sequence[Result], target: int) -> Iterator[str]:
    """One line per splitter, over all files."""
    names = list(dict.fromkeys(one.splitter for one in results))
    ours = good([one for one in results if one.splitter == OURS])
    yield (
        f"{'':24}{'exact %':>8}{'good %':>8}{'ours x':>8}{'bad':>7}{'orphans %':>11}{'in defs':>9}{'fill':>6}"
        f"{'tiny %':>8}{'over':>6}{'changed':>9}{'kept':>6}{'ms/MB':>8}"
    )
    for name in names:
        own = [one for one in results if one.splitter == name]
        exact = 100 * sum(one.exact for one in own) / len(own)
        share = good(own)
        bad = sum(bool(verdict.kinds) for one in own for verdict in one.verdicts)
        rate = 1e9 * sum(one.cpu for one in own) / sum(one.size for one in own)
        fresh, kept = mean_of(own, lambda one: one.changed), mean_of(own, lambda one: one.refreshed)
        yield (
            f"{name:24}{exact:8.1f}{share:8.2f}{ours / share if share else 0:8.2f}{bad:7}{orphans(own):11.2f}"
            f"{in_definitions(own):9}{fill(own, target):6.2f}{tiny(own, target):8.2f}{sum(one.over for one in own):6}"
            f"{_cell(fresh):>9}{_cell(kept):>6}{rate:8.0f}"
        )


def kinds(results: Sequence[Result]) -> Iterator[str]:
    """One line per kind: the percentage of good cuts of each splitter."""
    names = list(dict.fromkeys(one.splitter for one in results))
    yield f"{'good %':12}{'files':>6}  " + "  ".join(names)
    for kind in dict.fromkeys(one.kind for one in results):
        own = [[one for one in results if (one.kind, one.splitter) == (kind, name)] for name in names]
        cells = "  ".join(f"{good(each):{len(name)}.1f}" for name, each in zip(names, own, strict=True))
        yield f"{kind:12}{len(own[0]):6}  {cells}"


def targets(results: Sequence[Result], target: int) -> Iterator[tuple[str, bool]]:
    """Each measured target in words, and whether it was reached; targets of one kind only if missed."""
    own = [one for one in results if one.splitter == OURS]
    by_kind = {
        kind: [one for one in own if one.kind == kind] for kind in dict.fromkeys(one.kind for one in own)
    }
    exact = 100 * sum(one.exact for one in own) / len(own)
    yield f"exact {exact:.1f} % (100)", exact == 100
    share = good(own)
    yield f"good cuts {share:.2f} % (97)", share >= 97
    for kind, each in by_kind.items():
        least = 90 if kind == "html" else 95
        if good(each) < least:
            yield f"good cuts in {kind} {good(each):.2f} % ({least})", False
    inside = in_definitions(own)
    yield f"cuts inside a Python definition that would have fitted {inside} (0)", not inside
    yield f"orphaned comments {orphans(own):.2f} % (0.5)", orphans(own) <= 0.5
    yield f"fill {fill(own, target):.3f} (0.80)", fill(own, target) >= 0.8
    yield f"segments below an eighth {tiny(own, target):.2f} % (2)", tiny(own, target) <= 2
    for label, value, limit in (
        ("changed segments per edit, refreshed", mean_of(own, lambda one: one.refreshed), 1.3),
        ("changed segments per edit, from scratch", mean_of(own, lambda one: one.changed), 2.0),
        ("split time / parse time", over_parse(own), 1.25),
    ):
        if value is not None:
            yield f"{label} {value:.2f} ({limit})", value <= limit
    for kind, each in by_kind.items():
        ratio = over_parse(each)
        if ratio is not None and ratio > 1.5:
            yield f"split time / parse time in {kind} {ratio:.2f} (1.5)", False
    large = [1e6 * one.cpu / one.size for one in own if one.size >= 1 << 20 and one.parse]
    if large:
        slowest: float = max(large)
        yield f"slowest file of 1 MB and more: {slowest:.2f} s per MB (0.5)", slowest < 0.5
