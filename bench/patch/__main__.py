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
    """Returns 1 when ours did what was not meant, anywhere."""
    given = options(
        "bench.patch", about, arguments,
        repo=((Path,), "clones to make cases from; without it the listed ones are cloned"),
        cases=(1500, "how many"),
        seed=(1, ""),
        only=((str,), "only kinds with this in their name", {"metavar": "KIND"}),
        case=((str,), "only this case", {"metavar": "KIND#N"}),
        show_failures=(0, "print so many answers that went wrong"),
        json=(Path, "write a line for each case"),
        jobs=(os.cpu_count() or 1, "processes"),
        no_baselines=(False, "measure only repoagent"),
    )  # fmt: skip
    origins = with_history(given.repo)
    settings = Settings(tuple(origins), given.seed, not given.no_baselines)
    for name in set(BASELINES) - set(available()):
        print(f"not installed and not measured: {name}")
    named = (name.partition("#") for name in given.case)
    cases = [(kind, int(number or 0)) for kind, _, number in named] or plan(given.cases, given.only)
    found: list[Measured] = []
    unmade: dict[str, int] = {}
    for one in measured(settings, cases, given.jobs):
        if isinstance(one, str):
            unmade[one] = unmade.get(one, 0) + 1
        else:
            found.append(one)
    for kind, count in sorted(unmade.items()):
        print(f"no commit suits {kind} ({count})")
    print(table(found))
    failures = [one for one in found if failed(one)]
    for one in failures[: given.show_failures]:
        print(f"\n{'=' * 100}\n{_shown(one)}")
    if given.json:
        given.json.write_text("".join(json.dumps(_record(one)) + "\n" for one in found))
    return int(any(bad(one) for one in found))


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
