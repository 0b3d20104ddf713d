"""The repository of a test of runs, and the Messages API that its models are behind."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.llm.conftest import server_with

__all__ = ["server_with"]


@pytest.fixture
def repo(repo: GitRepo, request: pytest.FixtureRequest) -> GitRepo:
    """The sample repository, and the files COMMITTED of the test's module in a second commit."""
    if files := getattr(request.module, "COMMITTED", {}):
        repo.commit(**files)
    return repo
