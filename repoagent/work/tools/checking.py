"""The check that has to succeed before a commit, out of the configuration; light to import where there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from repoagent.config import Settings
from repoagent.edit.landing.check import Check
from repoagent.repo import WorkTree


def check_of(settings: Settings) -> Check | None:
    """The `check` of the configuration or of the command line, with its limits; None where there is none."""
    command = settings.text_or_none("check")
    if command is None:
        return None

    def confine(
        worktree: WorkTree, scratch: Path, argv: Sequence[str]
    ) -> tuple[list[str], Mapping[str, str]] | None:
        from repoagent.work.tools.confinement import confined_check

        return confined_check(settings, worktree, scratch, argv)

    unconfined = settings.switch("check.unconfined")
    return Check(command, settings.number_or_none("check.timeout"), None if unconfined else confine)
