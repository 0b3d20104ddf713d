"""How the store says that it went on in spite of something: a function that takes one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable

Warn = Callable[[str], None]
_said: set[str] = set()
_instead: list[Warn] = []  # at most one: who hears it in place of standard error


def to_stderr(sentence: str) -> None:
    """The default `Warn`; a process says the same once. A command with a progress display hands in its own."""
    if _instead:
        _instead[0](sentence)
    elif sentence not in _said:
        _said.add(sentence)
        sys.stderr.write(f"repoagent: warning: {sentence}\n")


def send_to(warn: Warn) -> None:
    """From here on this process says such sentences to `warn`, each time: a library must not write to the standard
    error of the program that uses it."""
    _instead[:] = [warn]
