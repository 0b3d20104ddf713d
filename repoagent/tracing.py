"""`REPOAGENT_TRACE`: print a line for each command that repoagent runs, with its duration, like GIT_TRACE.

1, 2 or true: to standard error. An absolute path: append to that file. 0, false or empty: off; a call then only reads
the environment. Keys, prompts and replies are never traced; docs/git.md describes the lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache

VARIABLE = "REPOAGENT_TRACE"
_ERRORS = {"1", "2", "true", "yes", "on"}
_OFF = {"", "0", "false", "no", "off"}
_LONGEST = 160  # characters of an argument; a commit message or a request would hide the rest


def is_on() -> bool:
    """Whether tracing is on."""
    return os.environ.get(VARIABLE, "").lower() not in _OFF


def begin() -> float:
    """The current `time.perf_counter()`, for `end`; 0.0 if tracing is off."""
    if not is_on():
        return 0.0
    from time import perf_counter

    return perf_counter()


def end(began: float, kind: str, text: str) -> None:
    """Trace what began at `began`, with its duration; does nothing if `began` is 0.0."""
    if began:
        from time import perf_counter

        line(kind, text, perf_counter() - began)


def command(began: float, arguments: Sequence[str | bytes], returncode: int | None) -> None:
    """Trace a process; `returncode` is None if it was not waited for."""
    if began:
        how = "" if returncode == 0 else "not waited for: " if returncode is None else f"exit {returncode}: "
        end(began, os.fsdecode(arguments[0]).rpartition("/")[2], how + quoted(arguments[1:]))


@contextmanager
def span(kind: str, text: str) -> Iterator[None]:
    """Trace the duration of the block, even if it raises."""
    began = begin()
    try:
        yield
    finally:
        end(began, kind, text)


def line(kind: str, text: str, seconds: float | None = None) -> None:
    """Write one line: time of day, kind, seconds, text. Secrets are redacted."""
    if not is_on():
        return
    from datetime import datetime

    from repoagent.display_text import redact

    took = "" if seconds is None else f"{seconds:.3f} s"
    # escape control characters after redacting, so that the trace stays one line
    shown = redact(text, os.environ).encode(
        "unicode_escape" if not text.isprintable() else "utf-8", "replace"
    )
    now = datetime.now().strftime("%H:%M:%S.%f")
    data = f"{now} {kind:<9} {took:>9}  ".encode() + shown + b"\n"
    target = os.environ.get(VARIABLE, "")
    try:  # in one call, so that lines of concurrent processes do not mix
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
            _warn(target, "use 1 or an absolute path")
    except OSError as error:
        _warn(target, error.strerror or str(error))


def quoted(arguments: Sequence[str | bytes]) -> str:
    """Arguments quoted for a shell; long ones are shortened."""
    from shlex import quote

    words = []
    for argument in arguments:
        word = os.fsdecode(argument)
        words.append(quote(word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..."))
    return " ".join(words)


@cache
def _warn(target: str, why: str) -> None:
    """Warn once."""
    with suppress(OSError):  # standard error is closed
        os.write(2, f"warning: cannot trace to {VARIABLE}={target!a}: {why}\n".encode())
