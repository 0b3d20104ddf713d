"""`python -m bench.local`: run the tasks, print a line per run and per format, and write the results to a file."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.local import __doc__ as about
from bench.local.runs import OUTCOMES, PASTE, Case, Result, run
from bench.local.tasks import all_tasks
from bench.options import options
from bench.repositories import CACHE

HEAD = (
    f"{'task':20}{'language':11}{'lines':>6}  {'format':8}{'loop':5}{'outcome':9}"
    f"{'calls':>6}{'tokens':>15}{'seconds':>9}"
)


def row(result: Result) -> str:
    tokens = f"{result.tokens_in:,} + {result.tokens_out:,}"
    loop = "on" if result.loop else "off"
    line = (
        f"{result.task:20}{result.language:11}{result.lines:>6}  {result.format:8}{loop:5}{result.outcome:9}"
        f"{result.calls:>6}{tokens:>15}{result.seconds:>9.0f}"
    )
    note = "" if result.outcome == "solved" else " ".join(result.note.split())[:90]
    return f"{line}  {note}" if note else line


def summary(results: Iterable[Result]) -> str:
    """Return a line per format, with and without the loop: the sums of its runs, and how many tasks it solved for each
    one that the baseline solved."""
    groups: dict[tuple[str, bool], list[Result]] = {}
    for result in results:
        groups.setdefault((result.format, result.loop), []).append(result)
    heads = "".join(f"{name:>9}" for name in OUTCOMES)
    lines = [f"{'format':9}{'loop':5}{'tasks':>6}{heads}{'tokens':>19}{'seconds':>9}  solved, x paste"]
    base = {result.task: result for result in groups.get((PASTE, False), [])}
    for (kind, loop), group in sorted(groups.items()):
        counts = "".join(f"{sum(result.outcome == name for result in group):>9}" for name in OUTCOMES)
        spent = f"{sum(r.tokens_in for r in group):,} + {sum(r.tokens_out for r in group):,}"
        seconds = sum(result.seconds for result in group)
        ratio = "" if kind == PASTE else _ratio(group, base)
        switch = "on" if loop else "off"
        line = f"{kind:9}{switch:5}{len(group):>6}{counts}{spent:>19}{seconds:>9.0f}  {ratio}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _ratio(results: Sequence[Result], base: dict[str, Result]) -> str:
    both = [result for result in results if result.task in base]
    if not both:
        return ""
    ours = sum(result.outcome == "solved" for result in both)
    theirs = sum(base[result.task].outcome == "solved" for result in both)
    return f"{ours} / {theirs} in {len(both)}" + (f" = {ours / theirs:.2f}" if theirs else "")


def main(arguments: Sequence[str] | None = None) -> None:
    args = _options(arguments)
    tasks = {task.name: task for task in all_tasks()}
    if unknown := [name for name in args.task or () if name not in tasks]:
        sys.exit(f"no task {unknown[0]!r}; the tasks are {', '.join(tasks)}")
    chosen = [
        task
        for task in tasks.values()
        if task.lines <= args.max_lines and (not args.task or task.name in args.task)
    ]
    loops = {"on": [True], "off": [False], "both": [False, True]}[args.loop]
    cases = [
        Case(task.name, kind, loop)
        for kind in args.format
        for task in chosen
        for loop in (loops if kind != PASTE else [False])
    ]
    earlier = read_results(args.results) if args.resume else []
    if not args.resume and args.results.exists():
        sys.exit(
            f"{args.results} exists: use --resume to complete it, remove it, or name another with --results"
        )
    done = {result.case: result for result in earlier if result.outcome != "error"}
    args.results.parent.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    for case in cases:
        if case not in done:
            done[case] = result = run(
                tasks[case.task], case, args.model, turns=args.turns, seconds=args.seconds,
                records=args.results.with_suffix(""),
            )  # fmt: skip
            with args.results.open("a", encoding="utf-8") as file:
                file.write(result.line())
        print(row(done[case]), flush=True)
    print(f"\n{args.model}\n{summary(done[case] for case in cases)}")


def read_results(path: Path) -> list[Result]:
    """Return the results in a file of earlier runs, without lines that are incomplete; [] if there is no file."""
    results = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            results.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return results


def _options(arguments: Sequence[str] | None) -> Namespace:
    args = options(
        "bench.local", about, arguments,
        model=(str, "provider/NAME or local/PATH (default: REPOAGENT_MODEL)",
               {"default": os.environ.get("REPOAGENT_MODEL")}),
        format=(str, f"edit formats; auto is the model's own, {PASTE} the baseline",
                {"nargs": "+", "default": ["whole"]}),
        loop=("both", "on: with --check and several calls; off: one call without", {"choices": ["on", "off", "both"]}),
        task=((str,), "run only these tasks", {"metavar": "NAME"}),
        max_lines=(10_000, "run only tasks of at most so many lines"),
        turns=(4, "model calls per file with the loop, at most"),
        seconds=(1800.0, "time limit of a run"),
        results=(CACHE / "local.jsonl", "results, a line per run; conversations and diffs go to a folder next to it",
                 {"type": Path}),
        resume=(False, "skip runs that are in the results, except errors"),
    )  # fmt: skip
    if not args.model:
        raise SystemExit("no model: use --model local/PATH.gguf or set REPOAGENT_MODEL")
    provider, _, path = args.model.partition("/")
    if provider == "local":  # runs have their own folder and home
        args.model = f"{provider}/{Path(path).expanduser().absolute()}"
    return args


if __name__ == "__main__":
    main()
