"""The repository of a test of runs, and the Messages API that its models are behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.llm.conftest import put, server_with

__all__ = ["put", "server_with"]


@pytest.fixture
def repo(repo: GitRepo, request: pytest.FixtureRequest) -> GitRepo:
    """The sample repository, and the files COMMITTED of the test's module in a second commit."""
    if files := getattr(request.module, "COMMITTED", {}):
        repo.commit(**files)
    return repo


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """The empty top folder of a repository, with place for other files beside it."""
    (tmp_path / "top").mkdir()
    return tmp_path / "top"
