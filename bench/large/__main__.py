"""Is what must change among what is shown? `python -m bench.large --repo PATH:FILE...`

Requests are the subjects of real commits to large files, with --body their messages, the truth are the lines that they
changed. Each way shows at most as many bytes as repoagent's; the file whole, and the prompt of a file of 300 lines, are
what the tokens are held against (bytes / 4).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

from bench.large.cases import Case, cases
from bench.large.choices import WAYS, Shown
from repoagent.edit.small_models.excerpts import mentioned
from repoagent.syntax.outline.outline import outline

SMALL_BYTES = 300 * 34  # of a source file of 300 lines
Row = tuple[Case, int, dict[str, Shown], float]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    rows: list[Row] = []
    for name in options.repo:
        top, _, path = name.rpartition(":")
        chosen = cases(Path(top), path, options.cases, options.seed, body=options.body)
        found = [_measured(case) for case in chosen]
        rows += found
        if found:
            print(f"{path}: {len(found)} requests, {median(size for _, size, _, _ in found):,.0f} bytes")
            print(_table(found), flush=True)
    if rows:
        print(f"\nall: {len(rows)} requests, {len({row[0].path for row in rows})} files\n{_table(rows)}")
        named = [row for row in rows if _names_symbol(row[0])]
        if named and len(named) < len(rows):
            print(f"\nof them {len(named)} name a definition of the file\n{_table(named)}")
        seconds = [row[3] for row in rows]
        print(f"choosing takes {median(seconds):.2f} s of CPU in the middle, {max(seconds):.2f} at most")


def _measured(case: Case) -> Row:
    data = case.data()
    started = time.process_time()
    found = {"repoagent": WAYS["repoagent"](case, data)}
    seconds = time.process_time() - started
    found |= {name: way(case, data) for name, way in WAYS.items() if name != "repoagent"}
    return case, len(data), found, seconds


def _names_symbol(case: Case) -> bool:
    return bool(mentioned(outline(case.path, case.data()), case.request, limit=150, sure=True))


def _table(rows: Sequence[Row]) -> str:
    lines = ["| way | all lines | a line | tokens | x whole | x 300 lines |", "|---|---|---|---|---|---|"]
    for name in WAYS:
        shares = [len(case.truth & found[name].lines) / len(case.truth) for case, _, found, _ in rows]
        sizes = [found[name].size for _, _, found, _ in rows]
        whole = mean(size / total for size, (_, total, _, _) in zip(sizes, rows, strict=True))
        lines.append(
            f"| {name} | {mean(share == 1 for share in shares):.3f} | {mean(share > 0 for share in shares):.3f} "
            f"| {mean(sizes) / 4:,.0f} | {whole:.3f} | {mean(sizes) / SMALL_BYTES:.1f} |"
        )
    return "\n".join(lines)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.large", description=__doc__)
    parser.add_argument(
        "--repo", nargs="+", required=True, metavar="PATH:FILE", help="a repository and a large file of it"
    )
    parser.add_argument("--cases", type=int, default=10, help="at most how many of each file (default 10)")
    parser.add_argument(
        "--body", action="store_true", help="requests are whole commit messages, not subjects alone"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
