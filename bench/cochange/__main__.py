"""`python -m bench.cochange --repo PATH...`: how well co-change predicts the other files of a commit, beside others.

The others stand there twice: helped by the product's identity of files and its filter for living ones, and as is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from bench.cochange.as_is import as_is, helped
from bench.cochange.baselines import BASELINES
from bench.cochange.load import load
from bench.cochange.memory import MemoryView
from bench.cochange.replay import SHOWN, Method, replay, sample
from repoagent.history.cochange.score import neighbors

OURS = "repoagent"
LIMITS = {"MAP": 1.28, "MRR": 1.23, "R@10": 1.25}
Means = dict[str, dict[str, float]]


def ours(history: MemoryView, asked: Sequence[int]) -> list[int]:
    """The product's own answer."""
    paths = [history.alive[file] for file in asked]
    return [found.file for found in neighbors(history, asked, paths, limit=SHOWN)]


HELPED = {f"{name}, helped": helped(method) for name, method in BASELINES.items()}
AS_IS = {f"{name}, as is": as_is(method) for name, method in BASELINES.items()}
METHODS: dict[str, Method] = {OURS: ours, **HELPED, **AS_IS}
GROUPS = (("with identity through renames, living files only", HELPED), ("as is", AS_IS))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.cochange", description=__doc__)
    parser.add_argument(
        "--repo",
        nargs="+",
        type=Path,
        required=True,
        metavar="PATH",
        help="repositories with all of their history",
    )
    parser.add_argument(
        "--queries", type=int, default=300, metavar="N", help="at most so many of each repository (300)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--asked", type=int, default=1, metavar="N", help="files of one query (1)")
    parser.add_argument(
        "--every-file", action="store_true", help="draw (commit, file) pairs evenly instead of commits"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures of each repository there"
    )
    args = parser.parse_args()
    found: dict[str, Means] = {}
    for repository in args.repo:
        began = time.process_time()
        changes = load(repository)
        queries = sample(changes, args.queries, args.seed, asked=args.asked, every_file=args.every_file)
        if not queries:
            print(f"{_name(repository)}: no commit to ask about", flush=True)
            continue
        figures = replay(changes, METHODS, queries)
        found[_name(repository)] = {name: each.model_setup() for name, each in figures.items()}
        spent = time.process_time() - began
        print(
            f"{_name(repository)}: {len(changes):,} commits, {len(queries)} queries, {spent:.1f} s",
            flush=True,
        )
        print(table(found[_name(repository)]), flush=True)
    if found:
        model_setup = average(list(found.values()))
        print(f"mean of {len(found)} repositories\n{table(model_setup)}\n{verdict(model_setup, found)}")
    if args.json:
        args.json.write_text(
            json.dumps({"version": 1, "seed": args.seed, "repositories": found}, indent=1) + "\n"
        )


def average(each: Sequence[Means]) -> Means:
    """Every repository counts the same."""
    return {
        method: {figure: sum(one[method][figure] for one in each) / len(each) for figure in each[0][method]}
        for method in each[0]
    }


def table(model_setup: Means) -> str:
    """A line for each method: its figures, and by how much ours is ahead."""
    lines = [_line(model_setup, OURS)]
    for title, group in GROUPS:
        lines += [f" {title}:", *(_line(model_setup, method) for method in group)]
    return "\n".join(lines)


def _line(model_setup: Means, method: str) -> str:
    figures = model_setup[method]
    cells = "  ".join(f"{figure} {value:.3f}" for figure, value in figures.items())
    ratios = " ".join(f"{model_setup[OURS][f] / figures[f]:.2f}" if figures[f] else "-" for f in LIMITS)
    return f"  {method:34}{cells}   {'' if method == OURS else f'ours x {ratios}'}".rstrip()


def verdict(model_setup: Means, found: dict[str, Means]) -> str:
    """Ours against the limits, and where it is behind."""
    lines = []
    for other in (f"{name}, {group}" for group in ("helped", "as is") for name in ("plain counts", "TARMAQ")):
        ratios = {figure: model_setup[OURS][figure] / (model_setup[other][figure] or 1) for figure in LIMITS}
        cells = ", ".join(
            f"{figure} {ratio:.3f} (limit {LIMITS[figure]})" for figure, ratio in ratios.items()
        )
        behind = [name for name, one in found.items() if one[OURS]["MAP"] <= one[other]["MAP"]]
        lines.append(f"x {other}: {cells}; behind in MAP on {', '.join(behind) or 'none'}")
    return "\n".join(lines)


def _name(repository: Path) -> str:
    resolved = repository.resolve()
    return resolved.parent.name if resolved.name in ("repo", ".git") else resolved.name


if __name__ == "__main__":
    main()
