"""What repoagent itself adds to an edit: `python -m bench.edit`, or `make bench`.

One edit of one file, by the real program in its own process, with a local server that answers at once. Beside it, in
the same run and in turns: `import anthropic` alone, `git commit` alone, and aider doing the same edit. All figures are
medians.
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
    given = options(
        "bench.edit", __doc__, arguments,
        runs=(7, "how often each is measured"),
        repository=(Path, "the large repository: a clone of it is used, not itself"),
        file=(str, "the file of it that is edited (default: one of usual size)"),
        aider=(Path, "the program (default: the one on PATH)"),
        without_aider=(False, "leave aider out"),
    )  # fmt: skip
    program = None if given.without_aider else aider.find(given.aider)
    subjects: dict[str, Subject] = {
        "import": import_alone,
        "repoagent": edit_by_repoagent,
        "git": commit_alone,
    }
    if program is not None:
        aider.prepare(program, Path(environment()["HOME"]))
        subjects["aider"] = partial(edit_by_aider, program)
    named = given.repository
    repositories = (small(), cloned(named, given.file) if named else large())
    found = measure(repositories, subjects, given.runs)
    print(f"{_machine()}\nMedians of {given.runs} runs in turns.")
    for repository in repositories:
        print(f"\n{repository.describe()}: {repository.edit.path}\n{table(found[repository])}")


def measure(
    repositories: Sequence[Repository], subjects: Mapping[str, Subject], runs: int
) -> dict[Repository, dict[str, Figures]]:
    """The medians of each subject in each repository. What aider can't do within the time is left out."""
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
                print(f"\nleaving aider out in {repository.name}: {error}", file=sys.stderr)
                del samples[repository, name]
                continue
            if turn >= 0:  # the first turn fills caches
                samples[repository, name].append(figures)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    found: dict[Repository, dict[str, Figures]] = {repository: {} for repository in repositories}
    for (repository, name), measured in samples.items():
        repository.restore()
        found[repository][name] = medians(measured)
    return found


def import_alone(repository: Repository) -> Figures:
    """From the start of Python to the end of its import."""
    ran = run([sys.executable, "-c", IMPORT], repository.top, environment())
    return {"request": (int(ran.output) - ran.started) / MILLION, "cpu": ran.cpu_ms, "peak": ran.peak_mb}


def commit_alone(repository: Repository) -> Figures:
    """The same change, made by hand before, as one commit."""
    repository.write()
    command = ["git", "commit", "--quiet", f"--message={MESSAGE}", "--", repository.edit.path]
    ran = run(command, repository.top, environment())
    _check(repository, ran)
    return {"commit": ran.wall_ms, "cpu": ran.cpu_ms}


def edit_by_repoagent(repository: Repository) -> Figures:
    program = Path(sys.executable).with_name("repoagent")
    command = [str(program), "edit", "--yes", repository.edit.path, repository.edit.request]
    with serving([ACCOUNT + repository.edit.diff]) as server:
        given = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-bench"}
        ran = run(command, repository.top, {**environment(), **given})
        return _figures(repository, ran, server.calls())


def edit_by_aider(program: Path, repository: Repository) -> Figures:
    """aider asks a second time, for the message of its commit."""
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
    """`figure` of each subject; `beside` is the subject that it is compared with, `limit` what repoagent may take: in
    all, or (`more`) more than that subject."""

    label: str
    figure: str
    unit: str
    beside: str = "aider"
    limit: float | None = None
    more: bool = False


ROWS = (
    Row("command to request", "request", "ms", "import", 400, more=True),
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


def table(found: Mapping[str, Figures]) -> str:
    """A line for each row: what every subject took, the ratio of repoagent to its baseline, and the limit."""
    columns = [name for name in NAMES if name in found]
    lines = [_line("", [NAMES[name] for name in columns], "ratio", "limit")]
    for row in ROWS:
        cells = [_cell(found[name].get(row.figure), row.unit) for name in columns]
        lines.append(_line(row.label, cells, _ratios(row, found), _verdict(row, found)))
    return "\n".join(lines)


def _line(label: str, cells: list[str], ratio: str, verdict: str) -> str:
    return (f"  {label:24}" + "".join(f"{cell:>18}" for cell in cells) + f"   {ratio:44}{verdict}").rstrip()


def _cell(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.0f} {unit}".rstrip()


def _ratios(row: Row, found: Mapping[str, Figures]) -> str:
    """repoagent as a multiple of each baseline of the row."""
    ours = found["repoagent"][row.figure]
    others = [name for name in dict.fromkeys((row.beside, "aider")) if found.get(name, {}).get(row.figure)]
    return ", ".join(f"{ours / found[name][row.figure]:.2f} x {NAMES[name]}" for name in others)


def _verdict(row: Row, found: Mapping[str, Figures]) -> str:
    if row.limit is None:
        return ""
    taken = found["repoagent"][row.figure] - (found[row.beside][row.figure] if row.more else 0)
    sign = "+" if row.more else ""
    return f"{taken:{sign},.0f} of {sign}{row.limit:,.0f} {row.unit}: {'kept' if taken <= row.limit else 'MISSED'}"


if __name__ == "__main__":
    main()
