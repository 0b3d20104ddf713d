"""`python -m bench.patch`: make the corpus, run the appliers, print the table."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.patch import __doc__ as about
from bench.patch.appliers import BASELINES, OURS, available
from bench.patch.corpus import plan
from bench.patch.report import bad, difference, dump, failed, table
from bench.patch.repositories import opened
from bench.patch.run import Measured, Settings, measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 1 when ours did what was not meant, anywhere."""
    options = _options(arguments)
    origins = opened(options.repo)
    if options.split:
        origins = [(origin, path) for origin, path in origins if origin.split == options.split]
    settings = Settings(tuple(origins), options.seed, not options.no_baselines)
    for name in set(BASELINES) - set(available()):
        print(f"{name} is not installed: not measured")
    cases = [tuple_of(name) for name in options.case] or plan(options.cases, options.only)
    found: list[Measured] = []
    unmade: dict[str, int] = {}
    for one in measured(settings, cases, options.jobs):
        if isinstance(one, str):
            unmade[one] = unmade.get(one, 0) + 1
        else:
            found.append(one)
            if options.progress and len(found) % 100 == 0:
                print(f"{len(found)} of {len(cases)}", file=sys.stderr, flush=True)
    for kind, count in sorted(unmade.items()):
        print(f"no commit is fit for {kind} ({count})")
    print(table(found))
    failures = [one for one in found if failed(one)]
    for one in failures[: options.show_failures]:
        print(f"\n{'=' * 100}\n{_shown(one)}")
    if options.dump:
        for one in failures if not options.case else found:
            dump(one, options.dump)
    if options.json:
        options.json.write_text("".join(json.dumps(_record(one)) + "\n" for one in found))
    return int(any(bad(one) for one in found))


def tuple_of(name: str) -> tuple[str, int]:
    kind, _, number = name.partition("#")
    return kind, int(number or 0)


def _shown(one: Measured) -> str:
    case = one.case
    head = (
        f"{case.name}: {one.verdicts[OURS]} ({', '.join(case.slips)}; {case.repository} {case.commit[:10]})"
    )
    return f"{head}\n{case.answer[:4000]}\n{'-' * 50}\n{one.canonical}\n{difference(one)[:3000]}"


def _record(one: Measured) -> dict[str, object]:
    case = one.case
    return {
        "case": case.name, "slips": case.slips, "repository": case.repository, "commit": case.commit,
        "split": one.split, "language": case.language, "lines": case.lines, "refuse": case.expected is None,
        "may_refuse": case.may_refuse,
        "verdicts": one.verdicts, "ms": {name: round(ms, 2) for name, ms in one.ms.items()},
        "text": one.ours.text if one.ours.files is None else "", "canonical": one.canonical,
    }  # fmt: skip


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.patch", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repo",
        type=Path,
        action="extend",
        nargs="+",
        default=[],
        help="clones to make cases from; without it the listed ones are cloned",
    )
    parser.add_argument("--cases", type=int, default=1500, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=("dev", "test"), help="only repositories of this split")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="KIND",
        help="only kinds with this in their name; again for more",
    )
    parser.add_argument(
        "--case", action="append", default=[], metavar="KIND#N", help="only this case; again for more"
    )
    parser.add_argument(
        "--show-failures", type=int, default=0, metavar="N", help="print so many answers that went wrong"
    )
    parser.add_argument(
        "--dump", type=Path, metavar="DIR", help="write what failed (with --case: all) as files"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a line for each case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-baselines", action="store_true", help="measure only repoagent")
    parser.add_argument("--progress", action="store_true", help="count on standard error")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
