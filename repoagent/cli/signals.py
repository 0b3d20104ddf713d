"""Being told to end (`kill`, a closed terminal) is as ^C: what is half done is taken back first."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import NoReturn


class Ended(KeyboardInterrupt):
    """A signal says that we are to end; `number` is it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def listen() -> None:
    """From here on these signals raise Ended; those that the caller has us ignore (`nohup`) stay ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise Ended(number)


def die(number: int) -> None:
    """End as if nothing had handled the signal: who waits for us sees what it was."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
