"""The terminal does not show what is typed while nobody is asked: it would stand in the middle of what is printed.

What is typed meanwhile is not lost: `typed` has it, for who reads the next input. Terminal.ask and all else that a
person answers stand within `heard`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

from repoagent.cli.exit import at_end

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

_LOCAL, _CHARACTERS = 3, 6  # of what tcgetattr says


class _State:
    before: list[Any] | None = None  # how the terminal was, while it is hushed
    asking = 0  # how many wait for an answer
    lent = False  # another program has the terminal
    interrupted = False  # an answer, by ^C
    kept: ClassVar[list[bytes]] = []  # what was typed
    waited = 0.0  # seconds


@contextmanager
def hushed(terminal: Terminal) -> Iterator[None]:
    """No echo within, but where `heard` is; the terminal is as it was whenever this ends, or the process is stopped."""
    if not terminal.can_ask or _State.before is not None:
        yield
        return
    stops = signal.getsignal(signal.SIGTSTP)
    try:
        _State.before = termios.tcgetattr(_input())
        if stops == signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, _stop)
        _hush()
        yield
    finally:
        _restore()
        _State.before, _State.lent = None, False
        if stops == signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, stops)


def hush(terminal: Terminal) -> None:
    """As `hushed`, until the command has ended and said why."""
    stack = ExitStack()
    stack.enter_context(hushed(terminal))
    at_end.append(stack.close)


@contextmanager
def heard(*, typed_ahead: bool = False) -> Iterator[None]:
    """What is typed within is an answer, and is seen. What was typed before is kept for `typed`, unless `typed_ahead`
    says that it is an answer, too."""
    if not typed_ahead:
        collect()
    began = time.monotonic()
    _State.asking += 1
    try:
        _restore()
        yield
    except KeyboardInterrupt:
        _State.interrupted = True
        raise
    finally:
        _State.asking -= 1
        _State.waited += time.monotonic() - began
        _hush()


def lend() -> None:
    """Another program gets the terminal, as it was, until `resume`."""
    _State.lent = True
    _restore()


def resume() -> None:
    """What is typed from here on is not shown again."""
    if _State.lent:
        _State.lent = False
        _hush()


def echoed() -> bool:
    """Whether the terminal has shown the ^C that ended something."""
    return _State.before is None or _State.lent or _State.interrupted


def waited() -> float:
    """How many seconds this process has waited for answers so far."""
    return _State.waited


def collect() -> None:
    """Take what was typed, so that there is room for more: where there is none, a ^C can't come through."""
    if _State.before is None or _State.asking or _State.lent:
        return
    try:
        while os.tcgetpgrp(_input()) == os.getpgrp() and select.select([_input()], [], [], 0)[0]:
            had = len(_State.kept)
            # in one step: an exception for a ^C that comes between reading and keeping would lose what was read
            _State.kept.extend(islice(iter(partial(os.read, _input(), 65536), b""), 1))
            if len(_State.kept) == had:
                return
    except OSError:  # it was closed
        return


def typed() -> str:
    """What was typed while nobody was asked. It waits for an Enter of its own, so its last ones are left out."""
    collect()
    found, _State.kept = _State.kept, []
    return b"".join(found).decode("utf-8", "replace").rstrip("\n")


def _hush() -> None:
    """Character by character, as a line of a terminal takes 4,095 bytes and drops the rest; ^C drops nothing."""
    if _State.before is None or _State.asking or _State.lent:
        return
    quiet = [*_State.before[:_CHARACTERS], [*_State.before[_CHARACTERS]]]
    quiet[_LOCAL] = (quiet[_LOCAL] & ~(termios.ECHO | termios.ICANON)) | termios.NOFLSH
    quiet[_CHARACTERS][termios.VMIN], quiet[_CHARACTERS][termios.VTIME] = 1, 0
    _set(quiet)


def _restore() -> None:
    if _State.before is not None:
        _set(_State.before)


def _set(how: list[Any]) -> None:
    """In the background the terminal is another's, and asking for a change of it would stop us."""
    try:
        if os.tcgetpgrp(_input()) == os.getpgrp():
            termios.tcsetattr(_input(), termios.TCSANOW, how)
    except (termios.error, OSError):  # it was closed: there is nothing left to be set
        return


def _stop(number: int, _frame: FrameType | None) -> None:
    """^Z: the shell gets the terminal as we got it, and not what was typed for us."""
    collect()
    _restore()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)  # and here we are again
    signal.signal(number, _stop)
    _hush()


def _input() -> int:
    return sys.stdin.fileno()
