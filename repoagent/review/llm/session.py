"""The input, the result and the time limit of a review by a model."""

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


def _ignore(*_: object) -> None:
    """Ignore the message."""


@dataclass(frozen=True)
class ReviewSession:
    """Where to review, and within which limits.

    `warn` gets warnings for the user, `progress` the current step. `ready` is the model to ask; without it the model of
    the settings is opened. `record` is the cassette to write, `reply` the reply for `manual`. `afresh` ignores cached
    answers.
    """

    worktree: WorkTree
    layout: Layout
    settings: Settings
    warn: Callable[[str], None] = _ignore
    progress: Callable[[str], None] = _ignore
    ready: ModelSetup | None = None
    record: Path | None = None
    reply: Path | None = None
    afresh: bool = False


@dataclass(frozen=True)
class ModelAnswer:
    """The verified findings of a model.

    `dropped` counts the findings that could not be verified, `reasons` the same by reason. `unseen` has a phrase for
    each part of the change that was not reviewed, `notes` sentences for the user. `reused` counts the parts with a
    cached answer, `calls` the calls made. `error` is why the review is incomplete (no model, no network, a limit); it
    is also among the `notes`, and the findings made before it count.
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
    """The time limit of a review."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    @property
    def remaining(self) -> float:
        return self.end - time.monotonic()

    def check(self, *_: object) -> None:
        """Raise LimitReached when the time is up."""
        if self.remaining <= 0:
            raise LimitReached(
                f"the time limit of {self.seconds:g} s is reached; raise review.max_seconds to continue"
            )

    def wait(self, seconds: float, reason: str) -> None:
        """Raise LimitReached if a pause of `seconds` would pass the limit."""
        if seconds > self.remaining:
            raise LimitReached(
                f"{reason}; waiting {seconds:.0f} s would exceed review.max_seconds ({self.seconds:g} s)"
            )

    @contextmanager
    def alarm(self) -> Iterator[None]:
        """Raise LimitReached in the block when the time is up, even while it waits for the network."""
        self.check()
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ring(number: int, frame: FrameType | None) -> None:
            self.end = min(self.end, time.monotonic())
            self.check()

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, max(self.remaining, 0.001))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
