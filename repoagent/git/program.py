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
    """A running program that may print `most` bytes to each stream. `errors` is its standard error, if that is a pipe,
    as far as `output` has read it; `ended` is the limit for which the program was killed, "" if it was not."""

    ended: Literal["", "late", "large"] = ""

    def __init__(self, process: subprocess.Popen[bytes], most: float = math.inf) -> None:
        self.process, self.most, self.errors = process, most, bytearray()

    def output(self, silence: float) -> Iterator[bytes]:
        """Standard output as it arrives: to its end, or until the program has ended and `silence` seconds pass without
        output, because a background process may keep the pipe open."""
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
        """Kill the program and its background processes. limit: the limit that it has reached, if any."""
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
    """Run `command` (a string is run by the shell) with `stdin` as its input, for at most `seconds` seconds. If that is
    impossible, raises what `failure` returns for the reason. stderr: as for `subprocess.Popen`. most: see Program.

    Kills all its processes after the block, even after ^C.
    """
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
    """Write the input, in a separate thread: a program may print before it has read everything."""
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write(data)
