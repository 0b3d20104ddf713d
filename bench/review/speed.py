"""How long `repoagent review` makes a commit wait: `python -m bench.review.speed --repo PATH [--runs 15]`

Some files of the work tree of PATH, which should be a clone made for this, are changed and staged; history findings
only, on a warm index, against a bare click program plus `git diff --cached --raw`, in alternation. Medians of wall and
processor time, in milliseconds, children counted. Python keeps its bytecode in a folder of this run, whatever the
environment says of that: an installed program has been compiled.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

_CLICK = "import click\n@click.command()\ndef main(): pass\nmain()"
PROGRAM = str(Path(sys.executable).with_name("repoagent"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repo", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--hook", action="store_true", help="with the environment of a pre-commit hook")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-bytecode-") as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        _stage(given.repo, given.files)
        subprocess.run([PROGRAM, "review", "--learn"], cwd=given.repo, check=True)
        if given.hook:
            os.environ.update(_of_a_hook())
        _measure(given.repo, given.runs)


def _of_a_hook() -> dict[str, str]:
    """What git sets for a pre-commit hook; the date is later than the runs, so that it is that of no old commit."""
    return {
        "GIT_INDEX_FILE": ".git/index",
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_AUTHOR_DATE": f"@{int(time.time()) + 3600} +0000",
    }


def _measure(top: Path, runs: int) -> None:
    subjects = {
        "click": [[sys.executable, "-c", _CLICK]],
        "git diff --cached --raw": [["git", "diff", "--cached", "--raw"]],
        "repoagent review": [[PROGRAM, "review", "--fail-on", "never"]],
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in subjects}
    for commands in subjects.values():  # the first run of each compiles
        _timed(commands, top)
    for _ in range(runs):
        for name, commands in subjects.items():
            times[name].append(_timed(commands, top))
    found = {
        name: [statistics.median(each[place] for each in some) for place in (0, 1)] for name, some in times.items()
    }  # fmt: skip
    base = [found["click"][place] + found["git diff --cached --raw"][place] for place in (0, 1)]
    for name, (wall, cpu) in found.items():
        print(f"{name:28}{wall:8.0f} ms wall{cpu:8.0f} ms processor")
    ours = found["repoagent review"]
    print(f"ratio to click and git diff {ours[0] / base[0]:8.2f} wall   {ours[1] / base[1]:8.2f} processor")


def _stage(top: Path, count: int) -> None:
    """Change a line of the first files of the newest commits."""
    names = subprocess.run(
        ["git", "-C", str(top), "log", "-30", "--no-merges", "--format=", "--name-only", "--diff-filter=M"],
        stdout=subprocess.PIPE, check=True, text=True,
    ).stdout.split()  # fmt: skip
    chosen = [name for name in dict.fromkeys(names) if name.endswith((".c", ".h", ".py", ".rb", ".go"))][
        :count
    ]
    for name in chosen:
        path = top / name
        path.write_bytes(path.read_bytes() + b"\n")
    subprocess.run(["git", "-C", str(top), "add", "--", *chosen], check=True)


def _timed(commands: Sequence[Sequence[str]], cwd: Path) -> tuple[float, float]:
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (time.monotonic() - begun) * 1000, cpu * 1000


if __name__ == "__main__":
    main()
