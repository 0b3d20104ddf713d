"""Fixtures for what the repository side is tried on."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.git.states import busy, busy_template

__all__ = ["busy", "busy_template"]  # fixtures

LINES = "".join(f"line {n}\n" for n in range(1, 11))


@pytest.fixture
def messy(repo: GitRepo) -> GitRepo:
    """Staged and unstaged work, in the file of the edit too."""
    repo.write("b.txt", LINES)
    repo.commit("more")
    repo.write("a.txt", LINES.replace("line 9", "staged 9"))
    repo.write("b.txt", LINES.replace("line 9", "staged 9"))
    repo.git("add", "a.txt", "b.txt")
    repo.write("a.txt", LINES.replace("line 9", "staged 9").replace("line 6", "unstaged 6"))
    repo.write("b.txt", LINES.replace("line 9", "staged 9").replace("line 6", "unstaged 6"))
    repo.write("README.md", "mine\n")
    repo.git("rm", "-q", "--cached", "src/app.py")
    repo.write("untracked.txt", "untracked\n")
    return repo
