"""Run a program and measure wall time, CPU time and memory, including those of its child processes."""

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
    """A finished run. `started` and `ended` are times of `time.monotonic_ns`; `cpu_ms` is user plus system time.
    `peak_mb` is the largest resident set of the program (MiB), `peak_of_all_mb` that of any process, children included:
    git's contains the pages of pack files that it has mapped and read."""

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
    """A measured program did not do its work, so its time means nothing."""


def run(command: Sequence[str], cwd: Path, env: Mapping[str, str], seconds: float = 120) -> Ran:
    """Run `command` to its end, without standard input; its output goes to a file, so that it never waits for a reader.

    Kills it and raises Failed if it takes longer than `seconds`.
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
        _, status, usage = os.wait4(process.pid, 0)  # usage of this child and its children
        ended = time.monotonic_ns()
        limit.cancel()
        watch.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode == -signal.SIGKILL:
        raise Failed(f"{Path(command[0]).name} was killed after {seconds:.0f} s")
    cpu = (usage.ru_utime + usage.ru_stime) * 1000
    peak = _mebibytes(usage.ru_maxrss)
    return Ran(process.returncode, text, started, ended, cpu, watch.peak_mb or peak, peak)


class _Watch(threading.Thread):
    """Polls the peak resident set of a process, which the system forgets when it ends. Linux only."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self._status = Path(f"/proc/{pid}/status")

    def run(self) -> None:
        while True:
            try:
                match = re.search(r"^VmHWM:\s*(\d+) kB", self._status.read_text(), re.MULTILINE)
            except OSError:
                return
            if match is None:  # the process has ended
                return
            self.peak_mb = int(match[1]) / 2**10
            time.sleep(0.02)


def _mebibytes(maxrss: int) -> float:
    """Convert `ru_maxrss`, which is in KiB or, on macOS, in bytes."""
    return maxrss / 2**20 if os.uname().sysname == "Darwin" else maxrss / 2**10


def changed_at(path: Path) -> int:
    """Return when `path` was last written, as a time of `time.monotonic_ns` that is off by up to 4 ms."""
    return path.stat().st_mtime_ns - time.time_ns() + time.monotonic_ns()


def medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
