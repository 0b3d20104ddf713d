"""The counterpart of faults.c: count the calls by which some work changes the disk, then repeat it with a fault.

A process started with `environment(...)` loads the library, and so does every git and hook that it starts. `Faults.run`
does the work in a fork of that process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
# The modes of faults.c. SELF, ALL and MAIN kill the process of the event, all processes, or that of the work; TORN cuts
# a write in two, then kills all; FAIL fails the call, FAIL_ON later ones too; TOLD sends signal `error` to the work.
COUNT, SELF, ALL, MAIN, TORN, FAIL, FAIL_ON, TOLD = range(8)
_PIDS = 500
_HEAD = struct.Struct("8i")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_SECONDS = 60.0


@dataclass(frozen=True)
class Event:
    """One call that changes the disk: its number, program, name and target."""

    number: int
    program: str
    call: str
    path: str


@dataclass(frozen=True)
class Ran:
    """A finished run: its events, its exit code (negative: the signal), and whether the fault occurred."""

    events: tuple[Event, ...]
    code: int
    fired: bool


def build(folder: Path) -> Path | None:
    """Build the library in `folder` and return its path, or None if that fails (not Linux, no compiler)."""
    compiler = shutil.which("cc")
    if not sys.platform.startswith("linux") or compiler is None:
        return None
    library = folder / "faults.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, check=False)
    return library if done.returncode == 0 else None


def environment(library: Path, control: Path) -> dict[str, str]:
    control.write_bytes(bytes(_HEAD.size + 4 * _PIDS))
    return {**os.environ, "LD_PRELOAD": str(library), "CRASH_CONTROL": str(control)}


class Faults:
    """Runs work with faults. Needs a process that was started with `environment`."""

    def __init__(self) -> None:
        self._control = Path(os.environ["CRASH_CONTROL"])
        self._log = Path(f"{self._control}.log")
        with self._control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        # makes `_wait` see processes that outlive the work
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)

    def run(self, work: Callable[[], int], mode: int = COUNT, at: int = -1, error: int = 0) -> Ran:
        """Do `work` in a fork, with the fault `mode` at the event number `at`, and wait for all its processes. `error`
        is the errno of FAIL and FAIL_ON, or the signal of TOLD."""
        os.truncate(self._log, 0)
        main = os.fork()
        if main == 0:
            own = os.getpid()
            self._map[:] = bytes(len(self._map))
            struct.pack_into("9i", self._map, 0, 1, mode, at, error, 0, 0, own, 1, own)
            code = 99
            try:
                code = work()
            finally:
                struct.pack_into("i", self._map, 0, 0)
                os._exit(code)
        _, status = os.waitpid(main, 0)
        self._wait()
        struct.pack_into("i", self._map, 0, 0)
        fired = struct.unpack_from("8i", self._map)[5] != 0
        return Ran(self._events(), os.waitstatus_to_exitcode(status), fired)

    def _wait(self) -> None:
        deadline = time.monotonic() + _SECONDS
        with suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(0.001)

    def _events(self) -> tuple[Event, ...]:
        events = []
        for line in self._log.read_text(errors="surrogateescape").splitlines():
            number, program, call, path = line.split(" ", 3)
            events.append(Event(int(number), program, call, path))
        return tuple(sorted(events, key=lambda event: event.number))
