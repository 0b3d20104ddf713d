"""`python -m bench.split`: choose the files, split them, judge the cuts, print the tables."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.split import __doc__ as about
from bench.split.corpus import LARGE, File, candidates, chosen, local
from bench.split.judges import KINDS
from bench.split.marks import judged
from bench.split.origins import opened
from bench.split.report import failures, kinds, shown, splitters, targets
from bench.split.run import Result, Settings, measured
from bench.split.splitters import OURS, SPLITTERS, available, ours

INSTALL = "pip install langchain-text-splitters semantic-text-splitter"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 when a target was missed."""
    options = _options(arguments)
    files = _files(options)
    names = [OURS] if options.no_baselines else list(available())
    missing = [name for name in SPLITTERS if name not in available()]
    if missing and not options.no_baselines:
        print(f"Not measured, as it is not installed: {', '.join(missing)}. To have all: {INSTALL}")
    results: list[Result] = []
    bad: list[str] = []
    edited: dict[str, int] = {}
    size = 0
    for number, file in enumerate(files):
        kind = file.source.kind
        edited[kind] = edited.get(kind, 0) + 1
        settings = Settings(
            options.target, options.seed, options.edits if edited[kind] <= options.edited_files else 0,
            not options.no_times and (edited[kind] <= options.timed_files or len(file.data) >= LARGE),
            options.memory and edited[kind] == 1,
        )  # fmt: skip
        size += len(file.data)
        for name in names:
            one = measured(file, name, SPLITTERS[name], settings)
            results.append(one)
            if name == (options.failures_of or OURS):
                bad.extend(failures(file, one))
        if options.sample:
            _sample(file, options)
        if options.progress:
            print(f"{number + 1} {file.source.kind} {file.source.name}", file=sys.stderr, flush=True)
    if not results:
        raise SystemExit("No file to judge: name clones of repositories with --repo or files with --file.")
    count, origins = len({one.name for one in results}), len({one.name.partition(":")[0] for one in results})
    print(
        f"{count} files of {origins} repositories, {size / 1e6:.1f} MB, target {options.target}, seed {options.seed}\n"
    )
    print("\n".join(splitters(results, options.target)), end="\n\n")
    print("\n".join(kinds(results, options.target)), end="\n\n")
    reached = list(targets(results, options.target))
    for text, well in reached:
        print(f"{'reached' if well else 'MISSED':8} {text}")
    if options.failures:
        options.failures.write_text("\n".join(bad))
    return int(not all(well for _, well in reached))


def _files(options: argparse.Namespace) -> Iterable[File]:
    if options.file:
        return [file for path in options.file if (file := local(path))]
    sources = [
        one for origin, clone in opened(options.repo, options.mirrors) for one in candidates(origin, clone)
    ]
    if options.split != "all":
        sources = [one for one in sources if one.held_out == (options.split == "test")]
    return chosen(sources, options.seed, options.per_kind, options.kind or KINDS, options.large)


def _sample(file: File, options: argparse.Namespace) -> None:
    """One cut of this file for a person to look at, as it was judged."""
    from itertools import accumulate

    chance = random.Random(f"{options.seed} {file.source.name}")
    split = SPLITTERS[options.failures_of or OURS] if options.failures_of else ours
    cuts = list(accumulate(map(len, split(file.source.kind, file.source.path, file.data, options.target))))[
        :-1
    ]
    verdicts = judged(file.marks, cuts, options.target)
    for wanted in (True, False):
        own = [one for one in verdicts if bool(one.kinds) != wanted]
        if own:
            one = chance.choice(own)
            word = "GOOD" if wanted else "BAD " + ",".join(one.kinds)
            with options.sample.open("a") as out:
                out.write(shown(file, one.offset, f"{word} [{one.label}]") + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.split", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--repo",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        help="clones to take files from; without it listed ones are fetched",
    )
    add(
        "--mirrors",
        type=Path,
        help="a folder of clones of the listed ones (OWNER+NAME)",
    )
    add("--file", type=Path, nargs="+", action="extend", default=[], help="judge these files, of any size")
    add("--kind", nargs="+", action="extend", choices=KINDS, help="only these kinds")
    add("--per-kind", type=int, default=14, help="files of each kind (%(default)s)")
    add(
        "--large",
        type=int,
        default=1,
        help="how many of them of 1 MB and more, where there are such (%(default)s)",
    )
    add(
        "--split", choices=("all", "dev", "test"), default="all", help="half of the files is held out: `test`"
    )
    add("--seed", type=int, default=1)
    add("--target", type=int, default=16_384, help="the largest segment in bytes (%(default)s)")
    add("--edits", type=int, default=20, help="local edits of a file (%(default)s)")
    add("--edited-files", type=int, default=1, help="so many files of each kind are edited (%(default)s)")
    add(
        "--timed-files",
        type=int,
        default=4,
        help="so many of each kind, and those of 1 MB, are timed (%(default)s)",
    )
    add("--no-times", action="store_true", help="time none of them")
    add("--memory", action="store_true", help="measure memory too, of one file of each kind")
    add("--no-baselines", action="store_true", help="measure only repoagent")
    add("--failures", type=Path, metavar="FILE", help="write the bad cuts there")
    add("--failures-of", choices=list(SPLITTERS), help="of this splitter, for --failures and --sample")
    add(
        "--sample",
        type=Path,
        metavar="FILE",
        help="append a good and a bad cut of each file, for a person to look at",
    )
    add("--progress", action="store_true")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
