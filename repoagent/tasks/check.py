"""The check command from the settings, importable without a run's toolset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from repoagent.config.settings import Settings
from repoagent.edit.request import Check
from repoagent.git.worktree import WorkTree


def check_of(settings: Settings) -> Check | None:
    """The `check` from the configuration or the command line, with its limits; None if it is not set."""
    command = settings.text_or_none("check")
    if command is None:
        return None

    def confine(
        worktree: WorkTree, scratch: Path, argv: Sequence[str]
    ) -> tuple[list[str], Mapping[str, str]] | None:
        from repoagent.tasks.sandbox import confined_check

        return confined_check(settings, worktree, scratch, argv)

    unconfined = settings.switch("check.unconfined")
    return Check(command, settings.number_or_none("check.timeout"), None if unconfined else confine)
