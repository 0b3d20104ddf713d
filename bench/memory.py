"""Finding a memory among many: `python -m bench.memory [COUNT...]`.

`resolve` of a remembered file, beside a bare stat and read of one identity file, in turns in the same run; and what
`repoagent memory list` asks. Medians of processor time, so that other load of the machine counts little; wall time
stands beside it. The memories are made in a temporary folder: identity files as `remember` writes them, and a few real
files.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.options import options
from repoagent.git.worktree import WorkTree, layout, open_worktree
from repoagent.memory.identity.record import FILE
from repoagent.memory.identity.store import listing, remember, resolve
from repoagent.memory.listing import RowFilter, rows

COUNTS = (1, 100, 10_000, 100_000)
REAL = 20
SHOWN = 500  # as on a terminal
_LIMIT_MS = 1.0


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(
        "bench.memory", __doc__, arguments,
        COUNTS=(int, "how many memories", {"nargs": "*", "default": COUNTS}),
        runs=(200, ""),
        folder=(Path, "where to make them (default: the folder for temporary files)"),
    )  # fmt: skip
    for count in given.counts:
        with tempfile.TemporaryDirectory(dir=given.folder, prefix="bench-memory-") as folder:
            print(f"\n{count:,} memories")
            for line in _measure(_made(Path(folder), count), given.runs):
                print(f"  {line}", flush=True)


def _made(top: Path, count: int) -> WorkTree:
    """A work tree with `count` memories, at most REAL of them of files that are there."""
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    worktree = open_worktree(top)
    place = layout(worktree)
    real = min(REAL, count)
    for number in range(real):
        (top / f"file{number}.py").write_bytes(_text(number))
        memory = remember(place, worktree, f"file{number}.py", _text(number))
    pattern = asdict(memory.identity)
    for number in range(real, count):
        folder = place.memory / f"file{number}-{number:08x}"
        folder.mkdir()
        path = f"src/part{number % 100}/file{number}.py"
        seen = {str(top): {"path": path, "blob": f"{number:040x}"}}
        value = {"version": 1, **pattern, "path": path, "keys": {f"1:{number}": str(top)}, "places": seen}
        (folder / "notes.md").write_text(f"# Notes\n\n- 2026-11-01: what is known of file {number}\n")
        (folder / "edits.jsonl").write_text(json.dumps({"version": 1, "id": f"20261101-{number}"}) + "\n")
        (folder / FILE).write_text(json.dumps({**value, "blobs": [f"{number:040x}"]}, indent=1))
    return worktree


def _text(number: int) -> bytes:
    return "".join(f"line {line} of file {number} is {line * number}\n" for line in range(100)).encode()


def _measure(worktree: WorkTree, runs: int) -> list[str]:
    place = layout(worktree)
    source = worktree.top / "file0.py"
    data = source.read_bytes()
    found = resolve(place, worktree, "file0.py", data)
    if found is None:
        raise SystemExit("the bench did not find a file it had remembered")
    identity = found.folder / FILE
    first = _once(lambda: listing(place))
    os.utime(place.memory, (1, 1))  # as old as it is in daily use
    resolve(place, worktree, "file0.py", data)
    bare, ours = [], []
    for _ in range(runs):
        bare.append(_once(lambda: _bare(source, identity)))
        ours.append(_once(lambda: resolve(place, worktree, "file0.py", data)))
    page = [
        _once(lambda: list(rows(place, worktree, RowFilter(limit=SHOWN), lambda _: None))) for _ in range(3)
    ]
    base = statistics.median(cpu for cpu, _ in bare)
    limit = "kept" if statistics.median(cpu for cpu, _ in ours) <= _LIMIT_MS else "MISSED"
    return [
        _line("bare stat and read", bare, base),
        _line("resolve a known file", ours, base) + f"   {_LIMIT_MS:g} ms: {limit}",
        _line(f"rows of a list: the first {SHOWN}", page, base),
        _line("the first look, nothing indexed yet", [first], base),
    ]


def _bare(source: Path, identity: Path) -> None:
    source.lstat()
    with identity.open("rb") as file:
        json.loads(file.read())


def _once(action: Callable[[], object]) -> tuple[float, float]:
    """Processor time and wall time in ms."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    action()
    return (time.process_time_ns() - cpu) / 1e6, (time.perf_counter_ns() - wall) / 1e6


def _line(label: str, taken: list[tuple[float, float]], base: float) -> str:
    cpu, wall = (statistics.median(values) for values in zip(*taken, strict=True))
    return f"{label:48}{cpu:10.3f} ms  {cpu / base:9.1f} x bare   ({wall:.3f} ms wall)"


if __name__ == "__main__":
    main()
