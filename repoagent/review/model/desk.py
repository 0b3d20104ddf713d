"""What a review by a model is given to work with, and what it brings back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from repoagent.dataclass import dataclass
from repoagent.errors import RepoagentError
from repoagent.review.finding import Finding

if TYPE_CHECKING:
    from repoagent.config import Settings
    from repoagent.edit.means import Means
    from repoagent.repo import WorkTree
    from repoagent.store import Layout


def _silent(*_: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Desk:
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
    ready: Means | None = None
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
