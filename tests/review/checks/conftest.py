"""Histories that are long enough to learn from, made in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from repoagent.config.layers import load
from repoagent.git.worktree import layout, open_at_head
from repoagent.review.checks.run import CheckOutcome, history_findings
from repoagent.review.checks.statistics import learn
from repoagent.review.diff.read import read_change
from repoagent.review.diff.select import ChangeSelector
from repoagent.review.finding import Finding
from repoagent.review.rules import RULES
from tests.conftest import GitRepo

Files = Mapping[str, str | None]  # None: the file goes
Made = Callable[[Sequence[tuple[str, Files]]], GitRepo]


@pytest.fixture
def made(make_repo: Callable[[str], GitRepo], monkeypatch: pytest.MonkeyPatch) -> Made:
    """A repository with these commits (subject and files, oldest first), a day apart, checked out."""
    monkeypatch.setenv("REPOAGENT_HISTORY__BACKGROUND", "false")

    def make(commits: Sequence[tuple[str, Files]]) -> GitRepo:
        repo = make_repo("made")
        repo.git("fast-import", "--quiet", "--done", stdin=b"".join(_stream(commits)))
        repo.git("reset", "-q", "--hard", "main")
        return repo

    return make


def _stream(commits: Sequence[tuple[str, Files]]) -> list[bytes]:
    found = []
    for number, (subject, files) in enumerate(commits):
        when = 1_700_000_000 + number * 86400
        head = f"commit refs/heads/main\ncommitter Ada Tester <ada@example.com> {when} +0000\n"
        found.append(f"{head}data {len(subject.encode())}\n{subject}\n".encode())
        for path, text in files.items():
            if text is None:
                found.append(f"D {path}\n".encode())
            else:
                data = text.encode()
                found.append(f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    return [*found, b"done\n"]


def answer(repo: GitRepo, selector: ChangeSelector | None = None, **rules: str) -> CheckOutcome:
    """What history says of what is staged, every rule on, learned just before."""
    worktree, head = open_at_head(repo.top)
    place = layout(worktree)
    levels = {f"review.rules.{rule}": "warning" for rule in RULES}
    settings = load(place, repo.top, flags={**levels, **{f"review.rules.{k}": v for k, v in rules.items()}})
    learn(worktree, place)
    change, _ = read_change(worktree, head, selector or ChangeSelector(cwd=repo.top))
    return history_findings(change, worktree, place, settings)


def found(repo: GitRepo, rule: str, selector: ChangeSelector | None = None) -> list[Finding]:
    return [finding for finding in answer(repo, selector).findings if finding.rule == rule]


def stage(repo: GitRepo, files: Files) -> None:
    for path, text in files.items():
        if text is None:
            (Path(repo.top) / path).unlink()
        else:
            repo.write(path, text)
    repo.git("add", "-A")


def noise(count: int, start: int = 0) -> list[tuple[str, Files]]:
    """Commits that say nothing: one file of nine each."""
    return [(f"Adjust number {n}", {f"noise/{n % 9}.c": f"{n}\n"}) for n in range(start, start + count)]


def mixed(one: Sequence[tuple[str, Files]], other: Sequence[tuple[str, Files]]) -> list[tuple[str, Files]]:
    """Both, taken in turn, the longer one's rest at the front."""
    longer = max(len(one), len(other))
    result: list[tuple[str, Files]] = []
    for place in range(longer):
        for some in (one, other):
            at = place - (longer - len(some))
            if at >= 0:
                result.append(some[at])
    return result
