"""Builders for the tests of reviews: files to stage, changes in memory, and the findings of the checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from repoagent.config.layers import load_settings
from repoagent.config.settings import Settings
from repoagent.git.worktree import WorkTree, layout_of, open_at_head
from repoagent.review.change import Change, ChangedFile, ChangedLines
from repoagent.review.checks.missing_partner import find_missing_partners
from repoagent.review.checks.run import static_findings
from repoagent.review.finding import Finding, ReviewOutcome
from repoagent.review.read_diff import ChangeSelector, How, read_change
from tests.conftest import GitRepo

Files = Mapping[str, str | None]  # None: remove the file
TOKEN = "ghp_" + "x9Kq2LmN8vRt4Wz7Yb3Cd6Fg1Hj5Pk0SaEuQ"


def stage(repo: GitRepo, files: Files, commit: str = "") -> None:
    for path, text in files.items():
        if text is None:
            (repo.top / path).unlink()
        else:
            repo.write(path, text)
    repo.git("add", "-A")
    if commit:
        repo.git("commit", "-qm", commit)


def read(top: Path, how: How = "staged", value: str = "", *pathspecs: str, diff: bytes = b"") -> Change:
    worktree, head = open_at_head(top)
    return read_change(worktree, head, ChangeSelector(how, value, pathspecs, top, diff))[0]


def settings_of(repo: GitRepo, rules: Mapping[str, str]) -> tuple[WorkTree, Settings]:
    worktree, _ = open_at_head(repo.top)
    flags = {f"review.rules.{rule}": level for rule, level in rules.items()}
    return worktree, load_settings(layout_of(worktree), repo.top, flags=flags)


def static(repo: GitRepo, how: How = "staged", value: str = "", **rules: str) -> ReviewOutcome:
    worktree, settings = settings_of(repo, {rule.replace("_", "-"): level for rule, level in rules.items()})
    return static_findings(read(repo.top, how, value), worktree, settings)


def history(repo: GitRepo, how: How, value: str, rules: Mapping[str, str]) -> ReviewOutcome:
    worktree, settings = settings_of(repo, rules)
    return find_missing_partners(read(repo.top, how, value), worktree, settings)


def brief(findings: tuple[Finding, ...] | list[Finding]) -> list[tuple[str, str, int]]:
    return [(finding.rule, finding.location.path, finding.location.start) for finding in findings]


def modified(path: str, old_path: str = "") -> ChangedFile:
    return ChangedFile(path, "modified", old_path or path, "1" * 40, "2" * 40, "100644", "100644")


def change_of(
    file: ChangedFile,
    old: bytes | None,
    new: bytes | None,
    *lines: ChangedLines,
    kind: str = "diff",
    message: str = "",
) -> Change:
    """A change of one file, in memory."""
    texts = SimpleNamespace(old=lambda _: old, new=lambda _: new, lines=lambda _: lines)
    return Change(kind, "the staged change", message=message, files=(file,), texts=texts)
