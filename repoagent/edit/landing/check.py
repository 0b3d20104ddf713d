"""Run the user's `--check` command on the changed work tree."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from repoagent.repo.run import uninterrupted
from repoagent.store.secrets import without_secrets

OUTPUT_LIMIT = 8 * 1024  # what a model is shown of a failing check, in bytes


@dataclass(frozen=True)
class CheckResult:
    command: str
    returncode: int
    output: bytes
    seconds: float

    @property
    def passed(self) -> bool:
        return self.returncode == 0

    def excerpt(self, limit: int = OUTPUT_LIMIT) -> str:
        """Standard output and error as they came, the middle left out where they are longer than `limit` bytes."""
        if len(self.output) <= limit:
            return self.output.decode(errors="replace")
        head, tail = self.output[: limit // 4], self.output[-(limit - limit // 4) :]
        left_out = len(self.output) - len(head) - len(tail)
        return f"{head.decode(errors='replace')}\n[… {left_out} bytes left out …]\n{tail.decode(errors='replace')}"


def run_check(command: str, top: Path, timeout: float | None = None) -> CheckResult:
    """Run `command` in a shell at the top of the work tree, without standard input.

    An interrupt or the time-out (in seconds) ends the whole process group; a time-out counts as a failure. The output
    is without the secrets of the environment: it goes to the model and into files.
    """
    started = time.monotonic()
    process: subprocess.Popen[bytes] | None = None
    try:
        with uninterrupted():  # a ^C right after the start must find the process to end
            process = subprocess.Popen(
                command,
                shell=True,
                cwd=top,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        output, _ = process.communicate(timeout=timeout)
        returncode = process.returncode
    except subprocess.TimeoutExpired:
        if process is None:
            raise
        output = _end(process) + f"\n[the check was stopped after {timeout:g} seconds]\n".encode()
        returncode = process.returncode or 124
    except BaseException:
        if process is not None:
            _end(process)
        raise
    told = without_secrets(output.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return CheckResult(command, returncode, told, time.monotonic() - started)


def _end(process: subprocess.Popen[bytes]) -> bytes:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it ended by itself between the interrupt and here
        pass
    output, _ = process.communicate()
    return output
