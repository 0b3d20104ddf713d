"""The counterpart of faults.c: count the changes on disk by a piece of work, then repeat it with a fault.

A process started with `environment(...)` loads the counter, and so does every git and hook that it starts. `Faults.run`
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
# The modes of faults.c: who is ended at the event, or that it fails. TORN cuts a write in two, then ends all; TOLD
# sends the signal in `error` to the work itself.
COUNT, SELF, ALL, MAIN, TORN, FAIL, FAIL_ON, TOLD = range(8)
_PIDS = 500
_HEAD = struct.Struct("8i")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h
_SECONDS = 60.0


@dataclass(frozen=True)
class Event:
    """One call that changes something: the program, the call, and its target."""

    number: int
    program: str
    call: str
    path: str


@dataclass(frozen=True)
class Ran:
    """A run: its events up to its end, the exit code (negative: the signal), and whether the fault occurred."""

    events: tuple[Event, ...]
    code: int
    fired: bool


def build(folder: Path) -> Path | None:
    """The library; None if it cannot be built (another system, no compiler)."""
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
    """To be used in a process that runs in `environment`."""

    def __init__(self) -> None:
        self._control = Path(os.environ["CRASH_CONTROL"])
        self._log = Path(f"{self._control}.log")
        with self._control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        # wait for processes that outlive the work
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)

    def run(self, work: Callable[[], int], mode: int = COUNT, at: int = -1, error: int = 0) -> Ran:
        """Do `work` in a fork with the fault `mode` (`error`: the errno of FAIL) at the event number `at`; all its
        processes have ended when this returns."""
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
        found = []
        for line in self._log.read_text(errors="surrogateescape").splitlines():
            number, program, call, path = line.split(" ", 3)
            found.append(Event(int(number), program, call, path))
        return tuple(sorted(found, key=lambda event: event.number))
