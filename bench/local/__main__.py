"""`python -m bench.local`: run the tasks, print a table, write a line per run to a file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.local import __doc__ as about
from bench.local.report import HEAD, row, summary
from bench.local.runs import PASTE, Case, Result, run
from bench.local.tasks import all_tasks
from bench.repositories import CACHE


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    tasks = {task.name: task for task in all_tasks()}
    if unknown := [name for name in options.task or () if name not in tasks]:
        sys.exit(f"there is no task {unknown[0]}; there are {', '.join(tasks)}")
    chosen = [
        task
        for task in tasks.values()
        if task.lines <= options.max_lines and (not options.task or task.name in options.task)
    ]
    loops = {"on": [True], "off": [False], "both": [False, True]}[options.loop]
    cases = [
        Case(task.name, kind, loop)
        for kind in options.format
        for task in chosen
        for loop in (loops if kind != PASTE else [False])
    ]
    before = read_results(options.results) if options.resume else []
    if not options.resume and options.results.exists():
        sys.exit(
            f"{options.results} is there already: --resume goes on with it; or remove it, or name another"
        )
    done = {result.case: result for result in before if result.outcome != "error"}
    options.results.parent.mkdir(parents=True, exist_ok=True)
    print(HEAD, flush=True)
    for case in cases:
        if case not in done:
            done[case] = result = run(
                tasks[case.task], case, options.model, turns=options.turns, seconds=options.seconds,
                kept=options.results.with_suffix(""),
            )  # fmt: skip
            with options.results.open("a", encoding="utf-8") as file:
                file.write(result.line())
        print(row(done[case]), flush=True)
    print(f"\n{options.model}\n{summary(done[case] for case in cases)}")


def read_results(path: Path) -> list[Result]:
    """The runs of an earlier time; a line that was cut is left out."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(Result(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.local", description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--model",
        default=os.environ.get("REPOAGENT_MODEL"),
        help="provider/NAME or local/PATH (default: REPOAGENT_MODEL)",
    )
    parser.add_argument(
        "--format",
        nargs="+",
        default=["whole"],
        help=f"edit formats, auto for the model's own, {PASTE} for the baseline",
    )
    parser.add_argument(
        "--loop",
        choices=["on", "off", "both"],
        default="both",
        help="with --check and several calls, or one call without",
    )
    parser.add_argument("--task", nargs="+", metavar="NAME", help="these only")
    parser.add_argument("--max-lines", type=int, default=10_000, help="tasks of at most so many lines")
    parser.add_argument(
        "--turns", type=int, default=4, help="model calls at most for each file, with the loop (default 4)"
    )
    parser.add_argument("--seconds", type=float, default=1800, help="for one run at most (default 1800)")
    parser.add_argument(
        "--results",
        type=Path,
        default=CACHE / "local.jsonl",
        help="a line per run; conversations and diffs in the folder beside it",
    )
    parser.add_argument("--resume", action="store_true", help="leave out what is in the results already")
    options = parser.parse_args(arguments)
    if not options.model:
        parser.error("name a model: --model local/PATH.gguf, or set REPOAGENT_MODEL")
    options.model = _from_anywhere(options.model)
    return options


def _from_anywhere(model: str) -> str:
    """A model file by its whole path: the runs have a folder and a home of their own."""
    provider, _, path = model.partition("/")
    return f"{provider}/{Path(path).expanduser().absolute()}" if provider == "local" else model


if __name__ == "__main__":
    main()
