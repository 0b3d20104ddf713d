"""How long `repoagent review` makes a commit wait: `python -m bench.review.speed --repo PATH [--runs 15]`

Some files of the work tree of PATH, which should be a clone made for this, are changed and staged; history findings
only, on a warm index, against a bare click program plus `git diff --cached --raw`, in alternation. Medians of wall and
processor time, in milliseconds, children counted. Python keeps its bytecode in a folder of this run, whatever the
environment says of that: an installed program has been compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

from bench.options import options
from bench.origins import git
from bench.timing import Ran, run

_CLICK = "import click\n@click.command()\ndef main(): pass\nmain()"
PROGRAM = str(Path(sys.executable).with_name("repoagent"))


def main() -> None:
    given = options(
        "bench.review.speed", __doc__,
        repo=(Path, "a clone made for this", {"required": True}),
        runs=(15, ""),
        files=(4, "how many are changed and staged"),
        hook=(False, "with the environment of a pre-commit hook"),
    )  # fmt: skip
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
    author = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.com"}
    date = f"@{int(time.time()) + 3600} +0000"
    return author | {"GIT_INDEX_FILE": ".git/index", "GIT_AUTHOR_DATE": date}


def _measure(top: Path, runs: int) -> None:
    subjects = {
        "click": [sys.executable, "-c", _CLICK],
        "git diff --cached --raw": ["git", "diff", "--cached", "--raw"],
        "repoagent review": [PROGRAM, "review", "--fail-on", "never"],
    }
    taken: dict[str, list[Ran]] = {name: [] for name in subjects}
    for turn in range(-1, runs):  # the first run of each compiles
        for name, command in subjects.items():
            ran = run(command, top, os.environ)
            if ran.code:
                raise SystemExit(f"{name} failed:\n{ran.output}")
            taken[name] += [ran] if turn >= 0 else []
    found = {
        name: (median(ran.wall_ms for ran in rans), median(ran.cpu_ms for ran in rans)) for name, rans in taken.items()
    }  # fmt: skip
    for name, (wall, cpu) in found.items():
        print(f"{name:28}{wall:8.0f} ms wall{cpu:8.0f} ms processor")
    bare = map(sum, zip(found["click"], found["git diff --cached --raw"], strict=True))
    wall, cpu = (ours / base for ours, base in zip(found["repoagent review"], bare, strict=True))
    print(f"ratio to click and git diff {wall:8.2f} wall   {cpu:8.2f} processor")


def _stage(top: Path, count: int) -> None:
    """Change a line of the first files of the newest commits."""
    log = git(top, "log", "-30", "--no-merges", "--format=", "--name-only", "--diff-filter=M").decode()
    known = (name for name in dict.fromkeys(log.split()) if name.endswith((".c", ".h", ".py", ".rb", ".go")))
    chosen = list(islice(known, count))
    for name in chosen:
        path = top / name
        path.write_bytes(path.read_bytes() + b"\n")
    git(top, "add", "--", *chosen)


if __name__ == "__main__":
    main()
