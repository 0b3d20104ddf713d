"""`python -m bench.local`: run the tasks, print a line for each run and for each format, write results to a file."""

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
    """A line for each format with and without the loop, and how many times as many were solved as by the baseline in
    the same tasks."""
    groups: dict[tuple[str, bool], list[Result]] = {}
    for result in results:
        groups.setdefault((result.format, result.loop), []).append(result)
    heads = "".join(f"{name:>9}" for name in OUTCOMES)
    lines = [f"{'format':9}{'loop':5}{'tasks':>6}{heads}{'tokens':>19}{'seconds':>9}  solved, x paste"]
    base = {result.task: result for result in groups.get((PASTE, False), [])}
    for (kind, loop), found in sorted(groups.items()):
        counts = "".join(f"{sum(result.outcome == name for result in found):>9}" for name in OUTCOMES)
        spent = f"{sum(r.tokens_in for r in found):,} + {sum(r.tokens_out for r in found):,}"
        seconds = sum(result.seconds for result in found)
        ratio = "" if kind == PASTE else _ratio(found, base)
        switch = "on" if loop else "off"
        line = f"{kind:9}{switch:5}{len(found):>6}{counts}{spent:>19}{seconds:>9.0f}  {ratio}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _ratio(found: Sequence[Result], base: dict[str, Result]) -> str:
    both = [result for result in found if result.task in base]
    if not both:
        return ""
    ours = sum(result.outcome == "solved" for result in both)
    theirs = sum(base[result.task].outcome == "solved" for result in both)
    return f"{ours} / {theirs} in {len(both)}" + (f" = {ours / theirs:.2f}" if theirs else "")


def main(arguments: Sequence[str] | None = None) -> None:
    given = _options(arguments)
    tasks = {task.name: task for task in all_tasks()}
    if unknown := [name for name in given.task or () if name not in tasks]:
        sys.exit(f"no task {unknown[0]!r}; the tasks are {', '.join(tasks)}")
    chosen = [
        task
        for task in tasks.values()
        if task.lines <= given.max_lines and (not given.task or task.name in given.task)
    ]
    loops = {"on": [True], "off": [False], "both": [False, True]}[given.loop]
    cases = [
        Case(task.name, kind, loop)
        for kind in given.format
        for task in chosen
        for loop in (loops if kind != PASTE else [False])
    ]
    before = read_results(given.results) if given.resume else []
    if not given.resume and given.results.exists():
        sys.exit(
            f"{given.results} exists: use --resume to complete it, remove it, or name another with --results"
        )
    done = {result.case: result for result in before if result.outcome != "error"}
    given.results.parent.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    for case in cases:
        if case not in done:
            done[case] = result = run(
                tasks[case.task], case, given.model, turns=given.turns, seconds=given.seconds,
                kept=given.results.with_suffix(""),
            )  # fmt: skip
            with given.results.open("a", encoding="utf-8") as file:
                file.write(result.line())
        print(row(done[case]), flush=True)
    print(f"\n{given.model}\n{summary(done[case] for case in cases)}")


def read_results(path: Path) -> list[Result]:
    """The runs of an earlier time; a line that was cut is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def _options(arguments: Sequence[str] | None) -> Namespace:
    given = options(
        "bench.local", about, arguments,
        model=(str, "provider/NAME or local/PATH (default: REPOAGENT_MODEL)",
               {"default": os.environ.get("REPOAGENT_MODEL")}),
        format=(str, f"edit formats, auto for the model's own, {PASTE} for the baseline",
                {"nargs": "+", "default": ["whole"]}),
        loop=("both", "with --check and several calls, or one call without", {"choices": ["on", "off", "both"]}),
        task=((str,), "these only", {"metavar": "NAME"}),
        max_lines=(10_000, "tasks of at most so many lines"),
        turns=(4, "model calls at most for each file, with the loop"),
        seconds=(1800.0, "for one run at most"),
        results=(CACHE / "local.jsonl", "a line per run; conversations and diffs in the folder next to it",
                 {"type": Path}),
        resume=(False, "leave out what is in the results already"),
    )  # fmt: skip
    if not given.model:
        raise SystemExit("no model: use --model local/PATH.gguf or set REPOAGENT_MODEL")
    provider, _, path = given.model.partition("/")
    if provider == "local":  # the runs have a folder and a home of their own
        given.model = f"{provider}/{Path(path).expanduser().absolute()}"
    return given


if __name__ == "__main__":
    main()
