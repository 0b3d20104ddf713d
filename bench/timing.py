"""Run a program and say what it took: wall time, CPU time and memory, of it and of all that it started."""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MILLION = 1_000_000


@dataclass(frozen=True)
class Ran:
    """`started` and `ended` are of `time.monotonic_ns`, `cpu_ms` is user and system time. `peak_mb` is the largest
    resident set of the program (MiB), `peak_of_all_mb` that of it or any of its children: for git, that has the pages
    of the packs in it that it has mapped and read."""

    code: int
    output: str
    started: int
    ended: int
    cpu_ms: float
    peak_mb: float
    peak_of_all_mb: float

    @property
    def wall_ms(self) -> float:
        return (self.ended - self.started) / MILLION


class Failed(Exception):
    """A program that is measured did not do what it was to do: its time would mean nothing."""


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float = 120) -> Ran:
    """Run `command` to its end, without standard input. Its output goes to a file: nobody has to read along.

    Raises Failed when it takes longer than `seconds`; it is killed then.
    """
    with tempfile.TemporaryFile() as output:
        started = time.monotonic_ns()
        process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        watch = _Watch(process.pid)
        limit = threading.Timer(seconds, process.kill)
        watch.start()
        limit.start()
        _, status, usage = os.wait4(process.pid, 0)  # what this one child and its children used
        ended = time.monotonic_ns()
        limit.cancel()
        watch.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode(errors="replace")
    if process.returncode == -signal.SIGKILL:
        raise Failed(f"{Path(command[0]).name} was not done after {seconds:.0f} s")
    cpu = (usage.ru_utime + usage.ru_stime) * 1000
    peak = _mebibytes(usage.ru_maxrss)
    return Ran(process.returncode, said, started, ended, cpu, watch.peak_mb or peak, peak)


class _Watch(threading.Thread):
    """Reads the high-water mark of a process, which is gone with it, now and then; only Linux has it."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self._status = Path(f"/proc/{pid}/status")

    def run(self) -> None:
        while True:
            try:
                found = re.search(r"^VmHWM:\s*(\d+) kB", self._status.read_text(), re.MULTILINE)
            except OSError:
                return
            if found is None:  # it has ended
                return
            self.peak_mb = int(found[1]) / 2**10
            time.sleep(0.02)


def _mebibytes(maxrss: int) -> float:
    """`ru_maxrss` is in KiB, on macOS in bytes."""
    return maxrss / 2**20 if os.uname().sysname == "Darwin" else maxrss / 2**10


def changed_at(path: Path) -> int:
    """When `path` was last written, as a time of `time.monotonic_ns`. A kernel notes it to about 4 ms."""
    return path.stat().st_mtime_ns - time.time_ns() + time.monotonic_ns()


def medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
