"""Why there is no index to ask."""

from __future__ import annotations

from repoagent.errors import Refused, UsageError


class NoIndex(Refused):
    """The index can't be used here: nothing may be written, or what is written can't be read. Whoever asks has to do
    without it; the sentence says why."""


class NoCommits(UsageError):
    """There is no commit yet."""
