"""What repoagent itself adds to an edit: `python -m bench.edit`, or `make bench`.

One edit of one file, by the real program in its own process, with a local server that answers at once. Beside it, in
the same run and in turns: `import anthropic` alone, `git commit` alone, and aider doing the same edit. All figures are
medians.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench import aider
from bench.repositories import CACHE, Repository, cloned, environment, large, small
from bench.server import serving
from bench.table import Figures, table
from bench.timing import MILLION, Failed, Ran, changed_at, medians, run

ACCOUNT = "I add it.\n\n<commit>\nSay that the benchmark was here\n</commit>\n\n"
IMPORT = "import anthropic, time; print(time.monotonic_ns())"
Subject = Callable[[Repository], Figures]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    program = aider.find(options.aider) if options.with_aider else None
    subjects: dict[str, Subject] = {
        "import": import_alone,
        "repoagent": edit_by_repoagent,
        "git": commit_alone,
    }
    if program is not None:
        aider.prepare(program, Path(environment()["HOME"]))
        subjects["aider"] = partial(edit_by_aider, program)
    repositories = (small(), cloned(options.repository, options.file) if options.repository else large())
    found = measure(repositories, subjects, options.runs)
    print(f"{_machine()}\nMedians of {options.runs} runs in turns.")
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
                print(f"\naider is left out in {repository.name}: {error}", file=sys.stderr)
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
    message = "--message=Say that the benchmark was here"
    ran = run(
        ["git", "commit", "--quiet", message, "--", repository.edit.path], repository.top, environment()
    )
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
    with serving(
        ["I add it.\n\n" + repository.edit.search_replace, "Say that the benchmark was here"]
    ) as server:
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
        raise Failed(f"the edit did not become its commit (exit {ran.code}):\n{ran.output}")


def _machine() -> str:
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    python = ".".join(map(str, sys.version_info[:3]))
    return f"Python {python}, {git}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}."


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.edit", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="how often each is measured (default 7)")
    parser.add_argument(
        "--repository", type=Path, help="the large repository: a clone of it is used, not itself"
    )
    parser.add_argument("--file", help="the file of it that is edited (default: one of usual size)")
    parser.add_argument("--aider", type=Path, help=f"the program (default: installed in {CACHE.name}/aider)")
    parser.add_argument("--without-aider", dest="with_aider", action="store_false")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
