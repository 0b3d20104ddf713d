"""Run a program in a process group of its own, within limits, and read the output of a process."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from repoagent.git.process import uninterrupted

_POLL = 0.1  # seconds between two looks whether a silent program has ended


class Program:
    """A running program that may print `most` bytes to each stream. `errors` is what `output` has read of standard
    error; `ended` is the limit for which it was killed."""

    ended: Literal["", "late", "large"] = ""

    def __init__(self, process: subprocess.Popen[bytes], most: float = math.inf) -> None:
        self.process, self.most, self.errors = process, most, bytearray()

    def output(self, silence: float) -> Iterator[bytes]:
        """Standard output as it arrives, to its end, or until the program has ended and `silence` seconds pass: a
        background process may hold the pipe."""
        sizes: Counter[int] = Counter()
        with selectors.DefaultSelector() as selector:
            for pipe in filter(None, (self.process.stdout, self.process.stderr)):
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                has_ended = self.process.poll() is not None  # if so, all that it printed is ready to be read
                ready = selector.select(silence if has_ended else _POLL)
                if has_ended and (self.ended or not ready):
                    return
                for key, _ in ready:
                    data = os.read(key.fd, 65_536)
                    sizes[key.fd] += len(data)
                    if sizes[key.fd] > self.most:
                        self.kill("large")
                        return
                    if not data:
                        selector.unregister(key.fd)
                    elif key.fileobj is self.process.stderr:
                        self.errors += data
                    else:
                        yield data

    def kill(self, limit: Literal["", "late", "large"] = "") -> None:
        """Kill the program and its background processes for `limit`."""
        self.ended = limit or self.ended
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.contextmanager
def start_program(
    command: str | Sequence[str],
    failure: Callable[[str], Exception],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    stdin: bytes,
    stderr: IO[bytes] | int,
    seconds: float,
    most: int,
) -> Iterator[Program]:
    """Run `command` (a string: by the shell) for at most `seconds`, and kill all its processes after the block. Raises
    what `failure` makes of the reason if it cannot start. `stderr` is as for Popen."""
    with contextlib.ExitStack() as stack:
        with uninterrupted():  # a ^C right after the start must not lose the process to kill
            try:
                process = subprocess.Popen(
                    command, shell=isinstance(command, str), cwd=cwd, env=env, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=stderr, start_new_session=True,
                )  # fmt: skip
            except (OSError, ValueError) as error:  # a NUL in a name is a ValueError
                raise failure(getattr(error, "strerror", None) or str(error)) from error
            program = Program(process, most)
            alarm = threading.Timer(seconds, program.kill, ["late"])
            alarm.daemon = True
            stack.enter_context(process)  # closes its pipes
            stack.callback(process.wait)
            stack.callback(alarm.cancel)
            stack.callback(program.kill)
            alarm.start()
            threading.Thread(target=_feed, args=(process.stdin, stdin), daemon=True).start()
            process.stdin = None  # the thread closes it
        yield program


def _feed(stream: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(data)
