"""How long a review may take: asked before each call, and heard in the middle of one."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from repoagent.errors import LimitReached


class Clock:
    """How long a review may still take."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    def check(self, *_: object) -> None:
        """Raise LimitReached when the time is over."""
        if self.left <= 0:
            raise LimitReached(
                f"the limit of {self.seconds:g} s is reached: raise review.max_seconds to go on"
            )

    def wait(self, seconds: float, reason: str) -> None:
        """Raise LimitReached where a pause of `seconds` would be too long."""
        if seconds > self.left:
            raise LimitReached(
                f"{reason}; waiting {seconds:.0f} s would pass review.max_seconds ({self.seconds:g} s)"
            )

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Raise LimitReached in the block when the time is over, even where it waits for the network."""
        self.check()
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(number: int, frame: FrameType | None) -> None:
            self.end = min(self.end, time.monotonic())
            self.check()

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(self.left, 0.001))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
