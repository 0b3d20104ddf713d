"""`python -m bench.patch`: make the corpus, run the appliers, print the table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.options import options
from bench.origins import with_history
from bench.patch import __doc__ as about
from bench.patch.appliers import BASELINES, OURS, available
from bench.patch.corpus import plan
from bench.patch.report import Measured, Settings, bad, difference, failed, measured, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench; return 1 if repoagent applied anything wrong, crashed or showed a bad diff."""
    args = options(
        "bench.patch", about, arguments,
        repo=((Path,), "clones to take commits from; by default, the listed repositories are cloned"),
        cases=(1500, "number of cases"),
        seed=(1, ""),
        only=((str,), "only kinds whose name contains KIND", {"metavar": "KIND"}),
        case=((str,), "only this case", {"metavar": "KIND#N"}),
        show_failures=(0, "number of failed answers to print"),
        json=(Path, "file to write one JSON object per case to"),
        jobs=(os.cpu_count() or 1, "number of processes"),
        no_baselines=(False, "measure only repoagent"),
    )  # fmt: skip
    origins = with_history(args.repo)
    settings = Settings(tuple(origins), args.seed, not args.no_baselines)
    for name in set(BASELINES) - set(available()):
        print(f"not installed, so not measured: {name}")
    named = (name.partition("#") for name in args.case)
    cases = [(kind, int(number or 0)) for kind, _, number in named] or plan(args.cases, args.only)
    results: list[Measured] = []
    unmade: dict[str, int] = {}
    for one in measured(settings, cases, args.jobs):
        if isinstance(one, str):
            unmade[one] = unmade.get(one, 0) + 1
        else:
            results.append(one)
    for kind, count in sorted(unmade.items()):
        print(f"no commit suits {kind} ({count})")
    print(table(results))
    failures = [one for one in results if failed(one)]
    for one in failures[: args.show_failures]:
        print(f"\n{'=' * 100}\n{_shown(one)}")
    if args.json:
        args.json.write_text("".join(json.dumps(_record(one)) + "\n" for one in results))
    return int(any(bad(one) for one in results))


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
        "language": case.language, "lines": case.lines, "refuse": case.expected is None,
        "may_refuse": case.may_refuse,
        "verdicts": one.verdicts, "ms": {name: round(ms, 2) for name, ms in one.ms.items()},
        "text": one.ours.text if one.ours.files is None else "", "canonical": one.canonical,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
