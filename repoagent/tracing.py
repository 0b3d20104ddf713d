"""`REPOAGENT_TRACE`: what is run and how long it takes, a line each, much as GIT_TRACE has it.

1, 2 or true: to standard error. An absolute path: appended to that file. 0, false or empty: nothing, and then a call
costs one look at the environment. Keys, prompts and replies are never in it; see docs/git.md for the lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

VARIABLE = "REPOAGENT_TRACE"
_ERRORS = {"1", "2", "true", "yes", "on"}
_OFF = {"", "0", "false", "no", "off"}
_LONGEST = 160  # characters of one argument: a commit message or a request would hide the rest


class _Said:
    """What has been complained about once."""

    target: str = ""


def is_on() -> bool:
    """Whether anything is traced."""
    return os.environ.get(VARIABLE, "").lower() not in _OFF


def begin() -> float:
    """Where a measured time begins, in seconds of `time.perf_counter`; 0.0 when nothing is traced."""
    if not is_on():
        return 0.0
    from time import perf_counter

    return perf_counter()


def end(began: float, kind: str, text: str) -> None:
    """A line for what has begun at `began`, with the time it took; nothing when that is 0.0."""
    if began:
        from time import perf_counter

        line(kind, text, perf_counter() - began)


def command(began: float, arguments: Sequence[str | bytes], returncode: int | None) -> None:
    """A line for a process that has ended; `returncode` None for one that was not waited for."""
    if began:
        how = "" if returncode == 0 else "not waited for: " if returncode is None else f"exit {returncode}: "
        end(began, os.fsdecode(arguments[0]).rpartition("/")[2], how + quoted(arguments[1:]))


@contextmanager
def span(kind: str, text: str) -> Iterator[None]:
    """A line with the time that the block took, however it ends."""
    began = begin()
    try:
        yield
    finally:
        end(began, kind, text)


def line(kind: str, text: str, seconds: float | None = None) -> None:
    """Write one line: the time of day, what it is about, how long it took, what it was. Without secrets."""
    if not is_on():
        return
    from datetime import datetime

    from repoagent.display_text import redact

    took = "" if seconds is None else f"{seconds:.3f} s"
    # keys are looked for before control characters are written out, and a line stays one line
    shown = redact(text, os.environ).encode(
        "unicode_escape" if not text.isprintable() else "utf-8", "replace"
    )
    now = datetime.now().strftime("%H:%M:%S.%f")
    _write(f"{now} {kind:<9} {took:>9}  ".encode() + shown + b"\n")


def quoted(arguments: Sequence[str | bytes]) -> str:
    """Arguments as a shell takes them; a long one is cut."""
    from shlex import quote

    words = []
    for argument in arguments:
        word = os.fsdecode(argument)
        words.append(quote(word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..."))
    return " ".join(words)


def _write(data: bytes) -> None:
    """One write, so that the lines of processes that run at once stay whole. A trace never makes a run fail."""
    target = os.environ.get(VARIABLE, "")
    try:
        if target.lower() in _ERRORS:
            os.write(2, data)
        elif target.startswith("/"):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
            descriptor = os.open(target, flags, 0o600)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        else:
            _complain(target, "it takes 1 or an absolute path")
    except OSError as error:
        _complain(target, error.strerror or str(error))


def _complain(target: str, why: str) -> None:
    if _Said.target != target:
        _Said.target = target
        try:
            os.write(2, f"warning: nothing is traced to {VARIABLE}={target!a}: {why}\n".encode())
        except OSError:  # nobody to say it to
            return
