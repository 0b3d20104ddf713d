"""The repository of a test of runs."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo


@pytest.fixture
def repo(repo: GitRepo, request: pytest.FixtureRequest) -> GitRepo:
    """The sample repository, and the files COMMITTED of the test's module in a second commit."""
    if files := getattr(request.module, "COMMITTED", {}):
        repo.commit(**files)
    return repo
