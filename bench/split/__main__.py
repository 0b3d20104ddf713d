"""`python -m bench.split`: choose the files, split them, judge the cuts, print the tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.options import options
from bench.origins import with_files
from bench.split import __doc__ as about
from bench.split.corpus import LARGE, File, candidates, chosen, local
from bench.split.judges import KINDS
from bench.split.measure import Result, Settings, measured
from bench.split.report import kinds, splitters, targets
from bench.split.splitters import OURS, SPLITTERS, available

INSTALL = "pip install langchain-text-splitters semantic-text-splitter"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 when a target was missed."""
    given = options(
        "bench.split", about, arguments,
        repo=((Path,), "clones to take files from; without it listed ones are fetched"),
        mirrors=(Path, "a folder of clones of the listed ones (OWNER+NAME)"),
        file=((Path,), "judge these files, of any size"),
        kind=((str,), "only these kinds", {"choices": KINDS}),
        per_kind=(14, "files of each kind"),
        large=(1, "how many of them of 1 MB and more, where there are any"),
        seed=(1, ""),
        target=(16_384, "the largest segment in bytes"),
        edits=(20, "local edits of a file"),
        edited_files=(1, "so many files of each kind are edited"),
        timed_files=(4, "so many of each kind, and those of 1 MB, are timed"),
        no_times=(False, "time none of them"),
        no_baselines=(False, "measure only repoagent"),
    )  # fmt: skip
    files = _files(given)
    names = [OURS] if given.no_baselines else list(available())
    missing = [name for name in SPLITTERS if name not in available()]
    if missing and not given.no_baselines:
        print(f"Not installed and not measured: {', '.join(missing)}; to install: {INSTALL}")
    results: list[Result] = []
    edited: dict[str, int] = {}
    size = 0
    for file in files:
        kind = file.source.kind
        edited[kind] = edited.get(kind, 0) + 1
        settings = Settings(
            given.target, given.seed, given.edits if edited[kind] <= given.edited_files else 0,
            not given.no_times and (edited[kind] <= given.timed_files or len(file.data) >= LARGE),
        )  # fmt: skip
        size += len(file.data)
        for name in names:
            results.append(measured(file, name, SPLITTERS[name], settings))
    if not results:
        raise SystemExit("no file to judge; name clones with --repo or files with --file")
    count, origins = len({one.name for one in results}), len({one.name.partition(":")[0] for one in results})
    print(
        f"{count} files of {origins} repositories, {size / 1e6:.1f} MB, target {given.target}, seed {given.seed}\n"
    )
    print("\n".join(splitters(results, given.target)), end="\n\n")
    print("\n".join(kinds(results)), end="\n\n")
    reached = list(targets(results, given.target))
    for text, well in reached:
        print(f"{'reached' if well else 'MISSED':8} {text}")
    return int(not all(well for _, well in reached))


def _files(given: argparse.Namespace) -> Iterable[File]:
    if given.file:
        return [file for path in given.file if (file := local(path))]
    clones = with_files(given.repo, given.mirrors)
    sources = [one for origin, clone in clones for one in candidates(origin, clone)]
    return chosen(sources, given.seed, given.per_kind, given.kind or KINDS, given.large)


if __name__ == "__main__":
    sys.exit(main())
