""" "Always" is stored as a rule of one repository, in addition to the user's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.agent.approvals.policy import Verdict, user_rules
from repoagent.config.layers import load_settings
from repoagent.errors import UsageError
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.tasks.toolset import keep_rules
from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, User, go


@pytest.fixture(autouse=True)
def inside(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.top)


def test_always_is_stored_for_one_repository(repo: GitRepo, clean_environment: Path) -> None:
    mine = clean_environment / ".config" / "repoagent" / "config.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("[run]\nallow = ['ls *']\n")
    keep_rules(repo.top, ["git log *"])
    keep_rules(repo.top, ["rm '*'", "git log *"])
    assert load_settings(layout_of(open_worktree(repo.top)), flags={}).texts("run.allow") == (
        "git log *",
        "rm '*'",
    )
    assert user_rules(mine) == ("ls *",) and user_rules(mine, "run.deny") == ()
    with pytest.raises(UsageError, match="must be one line"):
        keep_rules(repo.top, ["a\nb"])


def test_always_applies_to_later_runs_in_this_repository_only(repo: GitRepo, clean_environment: Path) -> None:
    for keep in (False, True):
        user = User(allows=lambda request, keep=keep: Verdict(True, always=True, keep=keep))
        go(repo, "<run>sh -c 'exit 0'</run><run>sh -c 'exit 0'</run>", FINISH, user=user, name=f"run-{keep}")
        assert len(user.requests) == 1
    rejecting = User(allows=lambda request: Verdict(False))
    go(repo, "<run>sh -c 'exit 0'</run>", FINISH, user=rejecting, name="run-3")
    assert not rejecting.requests and not (clean_environment / ".config/repoagent/config.toml").exists()
