"""What a review by a model is given to work with, and what it brings back.

How long a review may take: asked before each call, and heard in the middle of one.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import LimitReached, RepoagentError
from repoagent.review.finding import Finding

if TYPE_CHECKING:
    from repoagent.config.settings import Settings
    from repoagent.edit.model_setup import ModelSetup
    from repoagent.git.worktree import WorkTree
    from repoagent.storage.layout import Layout


def _silent(*_: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class ReviewSession:
    """Where a review is done and within which limits.

    `warn` gets a sentence that a person should read, `progress` what is being done just now. `ready` is who is asked;
    without it the model is opened as the settings say. `record` is the cassette to write, `reply` the reply for
    `manual`. `afresh` asks again about what has an answer already.
    """

    worktree: WorkTree
    layout: Layout
    settings: Settings
    warn: Callable[[str], None] = _silent
    progress: Callable[[str], None] = _silent
    ready: ModelSetup | None = None
    record: Path | None = None
    reply: Path | None = None
    afresh: bool = False


@dataclass(frozen=True)
class ModelAnswer:
    """What a model found, all of it verified.

    `dropped` are the findings that could not be verified, `reasons` how many for which reason. `unseen` has a sentence
    for each part of the change that was not looked at, `notes` further ones for a person. `reused` is how many parts
    had an answer from before, `calls` how many calls were paid now. `error` is why the review is not whole: no model,
    no network, a limit; findings made before it stand, and its sentence is in `notes` already.
    """

    findings: tuple[Finding, ...] = ()
    dropped: int = 0
    unseen: tuple[str, ...] = ()
    tokens: int = 0
    cost: float | None = 0.0
    model: str = ""
    notes: tuple[str, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    reused: int = 0
    calls: int = 0
    error: RepoagentError | None = None


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
