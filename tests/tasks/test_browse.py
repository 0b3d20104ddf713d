"""The action `browse` in a whole run."""

from __future__ import annotations

from pathlib import Path

from repoagent.agent.approvals.policy import Verdict
from tests.conftest import GitRepo
from tests.tasks.bare import User, go


def test_browse_needs_the_option_and_approval(repo: GitRepo, clean_environment: Path) -> None:
    repo.commit(**{"f.txt": "one\n"})
    asks = (
        '<browse url="https://localhost/"/>',
        '<browse url="https://a.example/?f=one"/>',
        "<finish>no</finish>",
    )
    file = clean_environment / ".config" / "repoagent" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("run.browse = true\n")
    user = User(allows=lambda request: Verdict("localhost" in request.what, reason="not there"))
    _, model, _ = go(repo, *asks, user=user)
    assert "<browse url=" in "".join(part.text for part in model.seen[0].system)
    assert "not on the public internet" in user.observations[0].text
    assert "not there" in user.observations[1].text
    assert [request.patterns for request in user.requests] == [
        ("browse:https://localhost/*",), ("browse:https://a.example/*",)
    ]  # fmt: skip
