"""The command line: a module for each command, which parses arguments, calls one function and prints the result.

Read app.py (the table of commands) first, then run_program.py (errors and exit codes), session.py (the global options)
and one of commands/. chat/ is `repoagent chat`, ui/ has output and questions. All of them import this module, so it
contains only what is needed before anything else is loaded: `main` and the signals that end it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from repoagent.errors import Exit

__all__ = ["Ended", "die_of_signal", "listen", "main"]

# New objects that trigger a collection. Imported modules are never garbage; scanning them takes a tenth of the
# start-up.
_COLLECT_AFTER = 50_000


class Ended(KeyboardInterrupt):
    """Raised on the signal `number` (`kill`, a closed terminal). As after ^C, unfinished work is rolled back first."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `repoagent` (or `git repoagent`) and exit with its exit code. `argv` is the program's name and its arguments,
    by default `sys.argv`."""
    gc.set_threshold(_COLLECT_AFTER)
    try:
        listen()
        from repoagent.cli.app import cli
        from repoagent.cli.run_program import run

        program, *arguments = sys.argv if argv is None else argv
        code = run(cli, program, arguments)
    except Ended as ended:
        die_of_signal(ended.number)
        code = int(Exit.INTERRUPTED)
    except KeyboardInterrupt:  # during the imports, or a second ^C while `run` reported the first
        code = int(Exit.INTERRUPTED)
    gc.freeze()  # otherwise Python scans all objects, twice, before it exits
    sys.exit(code)


def listen() -> None:
    """Make SIGTERM and SIGHUP raise Ended from now on; signals that the caller ignores (`nohup`) stay ignored."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def die_of_signal(number: int) -> None:
    """Die of the signal as if it had not been handled, so that the parent process sees which signal it was."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
