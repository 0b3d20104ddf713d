"""How the store says that it went on in spite of something: a function that takes one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable

Warn = Callable[[str], None]
_said: set[str] = set()


def to_stderr(sentence: str) -> None:
    """The default `Warn`; a process says the same once. A command with a progress display hands in its own."""
    if sentence not in _said:
        _said.add(sentence)
        sys.stderr.write(f"repoagent: warning: {sentence}\n")
