"""One git call that runs while other work goes on, and is read until its end or until its time is up."""

from __future__ import annotations

import os
import select
import time
from contextlib import ExitStack
from pathlib import Path

from repoagent.repo.run import OFFLINE, git_stream


class _TimeUp(Exception):
    """Thrown into `git_stream`, which then ends git; leaving its block in peace would wait."""


def deadline_in(seconds: float | None) -> float | None:
    """The time of `time.monotonic` that is so many seconds from now; None for no limit."""
    return None if seconds is None else time.monotonic() + seconds


class TimedGit:
    """`git ARGS` in `top`, started at once, never fetching; `deadline` is a time of `time.monotonic`, None for no
    limit."""

    def __init__(self, top: Path, *args: str, deadline: float | None) -> None:
        self._deadline = deadline
        self._stack = ExitStack()
        self._stream = self._stack.enter_context(git_stream(top, *args, env=OFFLINE))

    def read(self) -> tuple[bytes, bool]:
        """All that git printed until the deadline, and whether it was cut off. What is there already is read
        however late it is. Ends git. Raises GitError when git fails in time."""
        data = bytearray()
        try:
            with self._stack:
                if not self._drain(data):
                    raise _TimeUp
        except _TimeUp:
            return bytes(data), True
        return bytes(data), False

    def close(self) -> None:
        """End git if it still runs."""
        try:
            with self._stack:
                raise _TimeUp
        except _TimeUp:
            return

    def _drain(self, data: bytearray) -> bool:
        descriptor = self._stream.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while poll.poll(self._milliseconds()):
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return True
            data += chunk
        return False

    def _milliseconds(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic()) * 1000
