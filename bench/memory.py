"""Measure finding and listing memories among many: `python -m bench.memory [COUNT...]`.

`resolve_memory` of a remembered file alternates with a bare stat and read of one identity file; the rows that
`repoagent memory list` shows are timed after them. Figures are medians of CPU time, which other load on the machine
hardly affects, with wall time beside them. The memories are made in a temporary folder; only a few are of existing
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
from repoagent.git.worktree import WorkTree, layout_of, open_worktree
from repoagent.memory.identity.record import FILE
from repoagent.memory.identity.store import memory_paths, remember_file, resolve_memory
from repoagent.memory.listing import memory_rows

COUNTS = (1, 100, 10_000, 100_000)
REAL = 20  # memories of files that exist
SHOWN = 500  # rows, as on a terminal
_LIMIT_MS = 1.0


def main(arguments: Sequence[str] | None = None) -> None:
    args = options(
        "bench.memory", __doc__, arguments,
        COUNTS=(int, "numbers of memories to measure with", {"nargs": "*", "default": COUNTS}),
        runs=(200, "measured runs of each"),
        folder=(Path, "where to make the memories (default: the system's temporary folder)"),
    )  # fmt: skip
    for count in args.counts:
        with tempfile.TemporaryDirectory(dir=args.folder, prefix="bench-memory-") as folder:
            print(f"\n{count:,} memories")
            for line in _measure(_make(Path(folder), count), args.runs):
                print(f"  {line}", flush=True)


def _make(top: Path, count: int) -> WorkTree:
    """Return a new work tree with `count` memories, at most REAL of them of existing files."""
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    worktree = open_worktree(top)
    dirs = layout_of(worktree)
    real = min(REAL, count)
    for number in range(real):
        (top / f"file{number}.py").write_bytes(_text(number))
        memory = remember_file(dirs, worktree, f"file{number}.py", _text(number))
    pattern = asdict(memory.identity)
    for number in range(real, count):
        folder = dirs.memory / f"file{number}-{number:08x}"
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
    dirs = layout_of(worktree)
    source = worktree.top / "file0.py"
    data = source.read_bytes()
    memory = resolve_memory(dirs, worktree, "file0.py", data)
    if memory is None:
        raise SystemExit("resolve found no memory of file0.py, which the bench made")
    identity = memory.folder / FILE
    first = _once(lambda: memory_paths(dirs))
    os.utime(dirs.memory, (1, 1))  # not changed just now, as in daily use
    resolve_memory(dirs, worktree, "file0.py", data)
    bare, ours = [], []
    for _ in range(runs):
        bare.append(_once(lambda: _bare(source, identity)))
        ours.append(_once(lambda: resolve_memory(dirs, worktree, "file0.py", data)))
    page = [_once(lambda: list(memory_rows(dirs, worktree, lambda _: None, limit=SHOWN))) for _ in range(3)]
    base = statistics.median(cpu for cpu, _ in bare)
    limit = "kept" if statistics.median(cpu for cpu, _ in ours) <= _LIMIT_MS else "MISSED"
    return [
        _line("bare stat and read", bare, base),
        _line("resolve a known file", ours, base) + f"   {_LIMIT_MS:g} ms: {limit}",
        _line(f"first {SHOWN} rows of the list", page, base),
        _line("first listing, nothing indexed yet", [first], base),
    ]


def _bare(source: Path, identity: Path) -> None:
    source.lstat()
    with identity.open("rb") as file:
        json.loads(file.read())


def _once(action: Callable[[], object]) -> tuple[float, float]:
    """Run `action` once and return its CPU and wall time in ms."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    action()
    return (time.process_time_ns() - cpu) / 1e6, (time.perf_counter_ns() - wall) / 1e6


def _line(label: str, times: list[tuple[float, float]], base: float) -> str:
    cpu, wall = (statistics.median(values) for values in zip(*times, strict=True))
    return f"{label:48}{cpu:10.3f} ms  {cpu / base:9.1f} x bare   ({wall:.3f} ms wall)"


if __name__ == "__main__":
    main()
