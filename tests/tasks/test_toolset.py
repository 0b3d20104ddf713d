"""Tools of a whole run: rules that "always" stores for one repository, and the actions `python` and `browse`."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.agent.approvals.policy import Verdict, user_rules
from repoagent.config.layers import load_settings
from repoagent.errors import UsageError
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.tasks.toolset import keep_rules
from tests.conftest import GitRepo
from tests.tasks.bare import DONE, FINISH, User, audited, go

COMMITTED = {"f.txt": "one\n"}


@pytest.fixture(autouse=True)
def inside(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo.top)


def test_always_is_stored_for_one_repository(repo: GitRepo, clean_environment: Path) -> None:
    mine = clean_environment / ".config" / "repoagent" / "config.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("[run]\nallow = ['ls *']\n")
    keep_rules(repo.top, ["git log *"])
    keep_rules(repo.top, ["rm '*'", "git log *"])
    settings = load_settings(layout_of(open_worktree(repo.top)), flags={})
    assert settings.texts("run.allow") == ("git log *", "rm '*'")
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


def test_a_kernel_lives_as_long_as_its_run(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    write = "<python>\nfrom pathlib import Path\nx = 40\nPath('f.txt').write_text('two\\n')\n</python>"
    outcome, model, user = go(repo, write, "<python>x + 2</python>", DONE)
    assert outcome.kind == "done" and repo.git("show", "HEAD:f.txt") == "two\n"
    assert "\n42\n" in model.last_prompt and "f.txt" in user.observations[0].text
    assert [request.kind for request in user.requests] == ["python", "python"]
    assert [event["how"] for event in audited(repo, "python")] == ["done", "done"]


def test_browse_needs_the_option_and_approval(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = ('<browse url="https://localhost/"/>', '<browse url="https://a.example/?f=one"/>')
    monkeypatch.setenv("REPOAGENT_RUN__BROWSE", "true")
    user = User(allows=lambda request: Verdict("localhost" in request.what, reason="not there"))
    _, model, _ = go(repo, *asks, "<finish>no</finish>", user=user)
    assert "<browse url=" in model.seen[0].system[0].text
    assert "not on the public internet" in user.observations[0].text
    assert "not there" in user.observations[1].text
    assert [request.patterns for request in user.requests] == [
        ("browse:https://localhost/*",), ("browse:https://a.example/*",)
    ]  # fmt: skip
