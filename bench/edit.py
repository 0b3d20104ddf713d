"""Measure what repoagent itself adds to an edit: `python -m bench.edit`, or `make bench`.

The real program, in its own process, edits one file with a local server that answers at once. It alternates with
`import anthropic` alone, `git commit` alone, and aider making the same edit. All figures are medians.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import aider
from bench.options import options
from bench.repositories import Repository, cloned, environment, large, small
from bench.server import serving
from bench.timing import MILLION, Failed, Ran, changed_at, medians, run

MESSAGE = "Say that the benchmark was here"
ACCOUNT = f"I add it.\n\n<commit>\n{MESSAGE}\n</commit>\n\n"
IMPORT = "import anthropic, time; print(time.monotonic_ns())"
Figures = dict[str, float]
Subject = Callable[[Repository], Figures]


def main(arguments: Sequence[str] | None = None) -> None:
    args = options(
        "bench.edit", __doc__, arguments,
        runs=(7, "measured runs of each program"),
        repository=(Path, "clone this repository and use it as the large one (default: a generated one)"),
        file=(str, "file of --repository to edit (default: a recently changed one of about 12 KB)"),
        aider=(Path, "path of aider (default: aider on PATH)"),
        without_aider=(False, "do not measure aider"),
    )  # fmt: skip
    program = None if args.without_aider else aider.find(args.aider)
    subjects: dict[str, Subject] = {
        "import": import_alone,
        "repoagent": edit_by_repoagent,
        "git": commit_alone,
    }
    if program is not None:
        aider.prepare(program, Path(environment()["HOME"]))
        subjects["aider"] = partial(edit_by_aider, program)
    repositories = (small(), cloned(args.repository, args.file) if args.repository else large())
    results = measure(repositories, subjects, args.runs)
    print(f"{_machine()}\nMedians of {args.runs} alternating runs.")
    for repository in repositories:
        print(f"\n{repository.describe()}: {repository.edit.path}\n{table(results[repository])}")


def measure(
    repositories: Sequence[Repository], subjects: Mapping[str, Subject], runs: int
) -> dict[Repository, dict[str, Figures]]:
    """Return each subject's medians of `runs` alternating runs in each repository, without aider where it fails."""
    samples: dict[tuple[Repository, str], list[Figures]] = {
        (repository, name): [] for repository in repositories for name in subjects
    }
    for turn in range(-1, runs):
        for repository, name in list(samples):
            repository.restore()
            try:
                figures = subjects[name](repository)
            except Failed as error:
                if name != "aider":
                    raise
                print(f"\nnot measuring aider in {repository.name}: {error}", file=sys.stderr)
                del samples[repository, name]
                continue
            if turn >= 0:  # the first run only fills caches
                samples[repository, name].append(figures)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    results: dict[Repository, dict[str, Figures]] = {repository: {} for repository in repositories}
    for (repository, name), sample in samples.items():
        repository.restore()
        results[repository][name] = medians(sample)
    return results


def import_alone(repository: Repository) -> Figures:
    """Measure `import anthropic` from the start of Python to the end of the import."""
    ran = run([sys.executable, "-c", IMPORT], repository.top, environment())
    return {"request": (int(ran.output) - ran.started) / MILLION, "cpu": ran.cpu_ms, "peak": ran.peak_mb}


def commit_alone(repository: Repository) -> Figures:
    """Write the edit to the file, then measure only its `git commit`."""
    repository.write()
    command = ["git", "commit", "--quiet", f"--message={MESSAGE}", "--", repository.edit.path]
    ran = run(command, repository.top, environment())
    _check(repository, ran)
    return {"commit": ran.wall_ms, "cpu": ran.cpu_ms}


def edit_by_repoagent(repository: Repository) -> Figures:
    program = Path(sys.executable).with_name("repoagent")
    command = [str(program), "edit", "--yes", repository.edit.path, repository.edit.request]
    with serving([ACCOUNT + repository.edit.diff]) as server:
        api = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-bench"}
        ran = run(command, repository.top, {**environment(), **api})
        return _figures(repository, ran, server.calls())


def edit_by_aider(program: Path, repository: Repository) -> Figures:
    """Measure aider, which makes a second request for its commit message."""
    with serving(["I add it.\n\n" + repository.edit.search_replace, MESSAGE]) as server:
        env = {**environment(), **aider.environment(server.url)}
        ran = run(aider.command(program, repository.edit), repository.top, env)
        return _figures(repository, ran, server.calls())


def _figures(repository: Repository, ran: Ran, calls: Sequence[Mapping[str, int]]) -> Figures:
    _check(repository, ran)
    committed = changed_at(repository.top / ".git" / "logs" / "HEAD")
    return {
        "request": (calls[0]["arrived"] - ran.started) / MILLION,
        "commit": (committed - calls[0]["answered"]) / MILLION,
        "end": (ran.ended - calls[0]["answered"]) / MILLION,
        "total": ran.wall_ms,
        "cpu": ran.cpu_ms,
        "peak": ran.peak_mb,
        "peak of all": ran.peak_of_all_mb,
        "tokens": sum(call["prompt_bytes"] for call in calls) / 4,
        "calls": len(calls),
    }


def _check(repository: Repository, ran: Ran) -> None:
    if ran.code or not repository.was_edited():
        raise Failed(f"the edit was not committed (exit {ran.code}):\n{ran.output}")


def _machine() -> str:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"Python {python}, {git}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}."


@dataclass(frozen=True)
class Row:
    """A `figure` of each subject. `limit` bounds that of repoagent or, if `relative`, by how much it exceeds that
    of the subject `baseline`."""

    label: str
    figure: str
    unit: str
    baseline: str = "aider"
    limit: float | None = None
    relative: bool = False


ROWS = (
    Row("command to request", "request", "ms", "import", 400, relative=True),
    Row("last byte to commit", "commit", "ms", "git", 300),
    Row("last byte to end", "end", "ms", "aider"),
    Row("total", "total", "ms", "aider"),
    Row("processor time", "cpu", "ms", "aider"),
    Row("peak memory", "peak", "MiB", "aider", 150),
    Row("  its git processes too", "peak of all", "MiB"),
    Row("tokens sent (bytes / 4)", "tokens", "", "aider"),
    Row("requests", "calls", "", "aider"),
)
NAMES = {"repoagent": "repoagent", "import": "import anthropic", "git": "git commit", "aider": "aider"}


def table(results: Mapping[str, Figures]) -> str:
    """Return a line per row: the subjects' figures, repoagent's ratios to its baselines, and if it keeps its limit."""
    columns = [name for name in NAMES if name in results]
    lines = [_line("", [NAMES[name] for name in columns], "ratio", "limit")]
    for row in ROWS:
        cells = [_cell(results[name].get(row.figure), row.unit) for name in columns]
        lines.append(_line(row.label, cells, _ratios(row, results), _verdict(row, results)))
    return "\n".join(lines)


def _line(label: str, cells: list[str], ratio: str, verdict: str) -> str:
    return (f"  {label:24}" + "".join(f"{cell:>18}" for cell in cells) + f"   {ratio:44}{verdict}").rstrip()


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.0f} {unit}".rstrip()


def _ratios(row: Row, results: Mapping[str, Figures]) -> str:
    """repoagent's figure as a multiple of the baseline's and of aider's."""
    ours = results["repoagent"][row.figure]
    names = dict.fromkeys((row.baseline, "aider"))
    others = {name: value for name in names if (value := results.get(name, {}).get(row.figure))}
    return ", ".join(f"{ours / value:.2f} x {NAMES[name]}" for name, value in others.items())


def _verdict(row: Row, results: Mapping[str, Figures]) -> str:
    if row.limit is None:
        return ""
    value = results["repoagent"][row.figure] - (results[row.baseline][row.figure] if row.relative else 0)
    sign = "+" if row.relative else ""
    return f"{value:{sign},.0f} of {sign}{row.limit:,.0f} {row.unit}: {'kept' if value <= row.limit else 'MISSED'}"


if __name__ == "__main__":
    main()
