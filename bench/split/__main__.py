"""`python -m bench.split`: select the files, split them, judge the cuts and print the tables."""

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
    """Run the benchmark; return 1 if a target was missed."""
    args = options(
        "bench.split", about, arguments,
        repo=((Path,), "clones to take files from (default: fetch those of origins.txt)"),
        mirrors=(Path, "folder with clones of those of origins.txt, named OWNER+NAME"),
        file=((Path,), "judge these files, of any size"),
        kind=((str,), "only these kinds", {"choices": KINDS}),
        per_kind=(14, "files per kind"),
        large=(1, "files of 1 MB or more per kind, if there are any"),
        seed=(1, ""),
        target=(16_384, "the largest segment in bytes"),
        edits=(20, "local edits per file"),
        edited_files=(1, "files per kind to edit"),
        timed_files=(4, "files per kind to time against the parse, besides those of 1 MB or more"),
        no_times=(False, "time no file against the parse"),
        no_baselines=(False, "measure only repoagent"),
    )  # fmt: skip
    files = _files(args)
    names = [OURS] if args.no_baselines else list(available())
    missing = [name for name in SPLITTERS if name not in available()]
    if missing and not args.no_baselines:
        print(f"Not measured because not installed: {', '.join(missing)}; run `{INSTALL}`")
    results: list[Result] = []
    edited: dict[str, int] = {}
    size = 0
    for file in files:
        kind = file.source.kind
        edited[kind] = edited.get(kind, 0) + 1
        settings = Settings(
            args.target, args.seed, args.edits if edited[kind] <= args.edited_files else 0,
            not args.no_times and (edited[kind] <= args.timed_files or len(file.data) >= LARGE),
        )  # fmt: skip
        size += len(file.data)
        for name in names:
            results.append(measured(file, name, SPLITTERS[name], settings))
    if not results:
        raise SystemExit("no file to judge; name clones with --repo or files with --file")
    count, origins = len({one.name for one in results}), len({one.name.partition(":")[0] for one in results})
    print(
        f"{count} files of {origins} repositories, {size / 1e6:.1f} MB, target {args.target}, seed {args.seed}\n"
    )
    print("\n".join(splitters(results, args.target)), end="\n\n")
    print("\n".join(kinds(results)), end="\n\n")
    outcomes = list(targets(results, args.target))
    for text, reached in outcomes:
        print(f"{'reached' if reached else 'MISSED':8} {text}")
    return int(not all(reached for _, reached in outcomes))


def _files(args: argparse.Namespace) -> Iterable[File]:
    if args.file:
        return [file for path in args.file if (file := local(path))]
    clones = with_files(args.repo, args.mirrors)
    sources = [one for origin, clone in clones for one in candidates(origin, clone)]
    return chosen(sources, args.seed, args.per_kind, args.kind or KINDS, args.large)


if __name__ == "__main__":
    sys.exit(main())
