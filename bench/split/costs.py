"""Processor time and memory, beside those of the bare parse of the same bytes."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.split.splitters import GRAMMARS, Splitter, grammar
from repoagent.syntax.parser import clear_cache

REPEATS = 3
# `ru_maxrss` of a new process begins at that of the process that started it; Linux knows better.
_PEAK = """
import re, resource, sys
from pathlib import Path
from bench.split.costs import parse
from bench.split.splitters import SPLITTERS
what, kind, path, name, target = sys.argv[1:]
data = Path(path).read_bytes()
split = SPLITTERS["repoagent"]
split(kind, name, data[:2000], int(target))
parse(kind, data[:2000])
split(kind, name, data, int(target)) if what == "split" else parse(kind, data)
status = Path("/proc/self/status")
found = re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text()) if status.exists() else None
print(found[1] if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def parse(kind: str, data: bytes) -> object:
    """The bare parse."""
    import tree_sitter

    return tree_sitter.Parser(tree_sitter.Language(grammar(kind))).parse(data)


def parser(kind: str) -> Callable[[bytes], object]:
    import tree_sitter

    language = tree_sitter.Language(grammar(kind))
    return lambda data: tree_sitter.Parser(language).parse(data)


def _spent(call: Callable[[], object]) -> float:
    clear_cache()
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def seconds(splitter: Splitter, kind: str, path: str, data: bytes, target: int) -> tuple[float, float]:
    """CPU seconds of the split and of the parse (0 without a grammar): medians of runs in alternation."""
    bare = parser(kind) if kind in GRAMMARS else None
    splits, parses = [], []
    for _ in range(REPEATS):
        splits.append(_spent(lambda: splitter(kind, path, data, target)))
        if bare:
            parses.append(_spent(lambda: bare(data)))
    return statistics.median(splits), statistics.median(parses) if parses else 0.0


def peaks(kind: str, path: str, data: bytes, target: int) -> tuple[float, float]:
    """The largest resident set in MiB of a process that splits, and of one that only parses; both have loaded all."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        found = []
        for what in ("split", "parse"):
            done = subprocess.run(
                [sys.executable, "-c", _PEAK, what, kind, file.name, path, str(target)],
                capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"Measuring the memory for {path} failed: {done.stderr.strip()}")
            found.append(int(done.stdout) / (2**20 if sys.platform == "darwin" else 2**10))
    return found[0], found[1]
