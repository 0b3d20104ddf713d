"""How the store says that it went on in spite of something: a function that takes one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable

Warn = Callable[[str], None]


def to_stderr(sentence: str) -> None:
    """The default `Warn`. A command with a progress display hands in its own."""
    sys.stderr.write(f"repoagent: warning: {sentence}\n")
