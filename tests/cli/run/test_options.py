"""Options of `run` that can't be meant."""

from __future__ import annotations

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import Run


@pytest.mark.parametrize(("option", "what"), [("--worktree", "DIR"), ("--branch", "NAME")])
def test_an_option_is_not_taken_for_the_value_of_the_one_before(
    repo: GitRepo, run: Run, option: str, what: str
) -> None:
    done = run("run", "--mode", "auto", option, "--network", "fix it")
    assert done.code == 2 and f"--network is what follows it: say {option} {what}" in done.err
    assert repo.git("worktree", "list").count("\n") == 1
