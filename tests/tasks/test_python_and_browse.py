"""The actions `python` and `browse` in a whole run."""

from __future__ import annotations

import pytest

from repoagent.agent.approvals.policy import Verdict
from tests.conftest import GitRepo
from tests.tasks.bare import DONE, User, audited, go

COMMITTED = {"f.txt": "one\n"}


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
