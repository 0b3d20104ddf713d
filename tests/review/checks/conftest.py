"""Histories that are long enough to calibrate on, created by one `git fast-import`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.history.index.index import open_index
from repoagent.review.finding import ReviewOutcome
from repoagent.review.read_diff import How
from tests.conftest import GitRepo
from tests.review.builders import Files, history

Commits = Sequence[tuple[str, Files]]
Made = Callable[[Commits], GitRepo]


@pytest.fixture
def made(make_repo: Callable[[str], GitRepo], monkeypatch: pytest.MonkeyPatch) -> Made:
    """A repository with these commits (subject and files, oldest first), one per day, checked out."""
    monkeypatch.setenv("REPOAGENT_HISTORY__BACKGROUND", "false")

    def make(commits: Commits) -> GitRepo:
        repo = make_repo("made")
        repo.git("fast-import", "--quiet", "--done", stdin=_stream(commits))
        repo.git("reset", "-q", "--hard", "main")
        return repo

    return make


def _stream(commits: Commits) -> bytes:
    parts = []
    for number, (subject, files) in enumerate(commits):
        time = 1_700_000_000 + number * 86400
        parts.append(f"commit refs/heads/main\ncommitter Ada Tester <ada@example.com> {time} +0000\n")
        parts.append(f"data {len(subject.encode())}\n{subject}\n")
        for path, text in files.items():
            change = (
                f"D {path}" if text is None else f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}"
            )
            parts.append(f"{change}\n")
    return "".join([*parts, "done\n"]).encode()


def answer(repo: GitRepo, how: How = "staged", value: str = "", level: str = "warning") -> ReviewOutcome:
    """The result of the check of the history, with the whole index."""
    with open_index(open_worktree(repo.top)) as index:
        index.update("HEAD")
    return history(repo, how, value, {"partner-missing": level})


def keys(repo: GitRepo, how: How = "staged", value: str = "") -> list[str]:
    return [finding.key for finding in answer(repo, how, value).findings]


def noise(count: int) -> list[tuple[str, Files]]:
    """Commits without a pattern, each of one of nine files."""
    return [(f"Adjust number {n}", {f"noise/{n % 9}.c": f"{n}\n"}) for n in range(count)]


def pairs(count: int, *paths: str, text: str = "") -> list[tuple[str, Files]]:
    return [(f"Change it {n}", dict.fromkeys(paths, f"{text}{n}\n")) for n in range(count)]


def mixed(longer: Commits, shorter: Commits) -> list[tuple[str, Files]]:
    """Both lists, alternating at the end; the rest of the longer one is at the front."""
    rest = len(longer) - len(shorter)
    turns = [commit for pair in zip(longer[rest:], shorter, strict=True) for commit in pair]
    return [*longer[:rest], *turns]
