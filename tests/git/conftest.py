"""Fixtures for what the repository side is tried on."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.git.edits import shell
from tests.git.states import busy, busy_template

__all__ = ["busy", "busy_template"]  # fixtures

WORK = """
cp a.txt b.txt; git add b.txt; git commit -qm more
sed -i 's/line 9/staged 9/' a.txt b.txt; git add a.txt b.txt; sed -i 's/line 6/unstaged 6/' a.txt b.txt
echo mine > README.md; git rm -q --cached src/app.py; echo untracked > untracked.txt
"""


@pytest.fixture
def messy(repo: GitRepo) -> GitRepo:
    """Staged and unstaged work, in the file of the edit too."""
    shell(repo, WORK)
    return repo
