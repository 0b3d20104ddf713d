"""Turn off the echo of the terminal except for questions: typed text would appear in the middle of the output.

The input is not lost: `typed` returns it to the next reader. Questions are asked within `echo_on`.
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

from repoagent.cli.run_program import at_end

if TYPE_CHECKING:
    from repoagent.cli.ui.terminal import Terminal

_LOCAL, _CHARACTERS = 3, 6  # indexes into the result of tcgetattr


class _State:
    before: list[Any] | None = None  # the terminal attributes to restore, while echo is off
    asking = 0  # open questions
    lent = False  # another program uses the terminal
    interrupted = False  # by ^C at a question
    input: ClassVar[list[bytes]] = []  # typed while no question was open
    waited = 0.0  # seconds spent waiting for answers


@contextmanager
def echo_off(terminal: Terminal) -> Iterator[None]:
    """Turn echo off, except within `echo_on`. Restores the terminal at the end, and while the process is stopped by
    ^Z."""
    if not terminal.can_ask or _State.before is not None:
        yield
        return
    stops = signal.getsignal(signal.SIGTSTP)
    try:
        _State.before = termios.tcgetattr(sys.stdin.fileno())
        if stops == signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, _stop)
        _turn_off()
        yield
    finally:
        _restore()
        _State.before, _State.lent = None, False
        if stops == signal.SIG_DFL:
            signal.signal(signal.SIGTSTP, stops)


def turn_echo_off(terminal: Terminal) -> None:
    """As `echo_off`, until the command has ended and its error was printed."""
    stack = ExitStack()
    stack.enter_context(echo_off(terminal))
    at_end.append(stack.close)


@contextmanager
def echo_on(*, typed_ahead: bool = False) -> Iterator[None]:
    """Turn echo on for an answer. Earlier input is saved for `typed`; with `typed_ahead` it counts as the answer."""
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
        _turn_off()


def lend() -> None:
    """Restore the terminal for another program, until `resume`."""
    _State.lent = True
    _restore()


def resume() -> None:
    """Turn echo off again after `lend`."""
    if _State.lent:
        _State.lent = False
        _turn_off()


def echoed() -> bool:
    """Whether the terminal has echoed the last ^C."""
    return _State.before is None or _State.lent or _State.interrupted


def waited() -> float:
    """The seconds this process has waited for answers."""
    return _State.waited


def collect() -> None:
    """Read typed input: if the input buffer of the terminal is full, ^C does not arrive."""
    if not _is_off():
        return
    number = sys.stdin.fileno()
    try:
        while os.tcgetpgrp(number) == os.getpgrp() and select.select([number], [], [], 0)[0]:
            before = len(_State.input)
            # in one step: ^C between reading and storing would lose input
            _State.input.extend(islice(iter(partial(os.read, number, 65536), b""), 1))
            if len(_State.input) == before:
                return
    except OSError:  # it was closed
        return


def typed() -> str:
    """Input typed while no question was open, without newlines at its end: the user must press Enter to send it."""
    collect()
    pieces, _State.input = _State.input, []
    return b"".join(pieces).decode("utf-8", "replace").rstrip("\n")


def _is_off() -> bool:
    return _State.before is not None and not _State.asking and not _State.lent


def _turn_off() -> None:
    """Also turn off line mode, which drops input after 4,095 bytes, and the flush at ^C."""
    if _State.before is not None and _is_off():
        quiet = [*_State.before[:_CHARACTERS], [*_State.before[_CHARACTERS]]]
        quiet[_LOCAL] = (quiet[_LOCAL] & ~(termios.ECHO | termios.ICANON)) | termios.NOFLSH
        quiet[_CHARACTERS][termios.VMIN], quiet[_CHARACTERS][termios.VTIME] = 1, 0
        _set(quiet)


def _restore() -> None:
    if _State.before is not None:
        _set(_State.before)


def _set(attributes: list[Any]) -> None:
    """Set the terminal attributes, except in the background, where that would stop the process."""
    number = sys.stdin.fileno()
    try:
        if os.tcgetpgrp(number) == os.getpgrp():
            termios.tcsetattr(number, termios.TCSANOW, attributes)
    except (termios.error, OSError):  # the terminal was closed
        return


def _stop(number: int, _frame: FrameType | None) -> None:
    """^Z: restore the terminal for the shell, without input typed for repoagent."""
    collect()
    _restore()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)  # returns when the process continues
    signal.signal(number, _stop)
    _turn_off()
