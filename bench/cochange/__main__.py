"""Predict the other files of a commit by co-change and other methods: `python -m bench.cochange --repo PATH...`

The other methods run twice: helped by the product's rename tracking and its filter for living files, and as is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.cochange.history import MemoryView, load
from bench.cochange.methods import BASELINES, Method, as_is, helped
from bench.cochange.replay import SHOWN, replay, sample
from bench.options import REPOSITORIES, options
from bench.origins import name_of
from repoagent.history.cochange import rank_neighbors

OURS = "repoagent"
LIMITS = {"MAP": 1.28, "MRR": 1.23, "R@10": 1.25}
Means = dict[str, dict[str, float]]


def ours(history: MemoryView, files: Sequence[int]) -> list[int]:
    paths = [history.alive[file] for file in files]
    return [neighbor.file for neighbor in rank_neighbors(history, files, paths, limit=SHOWN)]


HELPED = {f"{name}, helped": helped(method) for name, method in BASELINES.items()}
AS_IS = {f"{name}, as is": as_is(method) for name, method in BASELINES.items()}
METHODS: dict[str, Method] = {OURS: ours, **HELPED, **AS_IS}
GROUPS = (("with identity through renames, living files only", HELPED), ("as is", AS_IS))


def main() -> None:
    args = options(
        "bench.cochange", __doc__,
        repo=([Path], REPOSITORIES),
        queries=(300, "maximum number per repository"),
        seed=(1, ""),
    )  # fmt: skip
    results: dict[str, Means] = {}
    for repository in args.repo:
        began, name = time.process_time(), name_of(repository)
        changes = load(repository)
        queries = sample(changes, args.queries, args.seed)
        if not queries:
            print(f"{name}: no suitable commit", flush=True)
            continue
        figures = replay(changes, METHODS, queries)
        results[name] = {method: each.means() for method, each in figures.items()}
        spent = time.process_time() - began
        print(f"{name}: {len(changes):,} commits, {len(queries)} queries, {spent:.1f} s", flush=True)
        print(table(results[name]), flush=True)
    if results:
        mean = average(list(results.values()))
        print(f"mean of {len(results)} repositories\n{table(mean)}\n{verdict(mean, results)}")


def average(rows: Sequence[Means]) -> Means:
    """The means over repositories, which all weigh the same."""
    return {
        method: {figure: sum(row[method][figure] for row in rows) / len(rows) for figure in rows[0][method]}
        for method in rows[0]
    }


def table(means: Means) -> str:
    """One line per method: its figures, and the ratio of repoagent's figures to them."""
    lines = [_line(means, OURS)]
    for title, group in GROUPS:
        lines += [f" {title}:", *(_line(means, method) for method in group)]
    return "\n".join(lines)


def _line(means: Means, method: str) -> str:
    figures = means[method]
    cells = "  ".join(f"{figure} {value:.3f}" for figure, value in figures.items())
    ratios = " ".join(f"{means[OURS][f] / figures[f]:.2f}" if figures[f] else "-" for f in LIMITS)
    return f"  {method:34}{cells}   {'' if method == OURS else f'ours x {ratios}'}".rstrip()


def verdict(means: Means, results: dict[str, Means]) -> str:
    """The ratios to plain counts and TARMAQ with their limits, and the repositories where MAP is not higher."""
    lines = []
    for other in (f"{name}, {group}" for group in ("helped", "as is") for name in ("plain counts", "TARMAQ")):
        ratios = {figure: means[OURS][figure] / (means[other][figure] or 1) for figure in LIMITS}
        cells = ", ".join(
            f"{figure} {ratio:.3f} (limit {LIMITS[figure]})" for figure, ratio in ratios.items()
        )
        behind = [name for name, one in results.items() if one[OURS]["MAP"] <= one[other]["MAP"]]
        lines.append(f"x {other}: {cells}; behind in MAP on {', '.join(behind) or 'none'}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
