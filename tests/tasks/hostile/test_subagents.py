"""A subagent gets no more permissions than its parent."""

from __future__ import annotations

import os

import pytest

from repoagent.config.settings import user_file
from repoagent.tasks import subagents
from repoagent.tasks.run_context import RunRequest
from tests.conftest import GitRepo
from tests.tasks.bare import go


def test_the_sub_agent_of_a_plan_is_read_only(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[RunRequest] = []

    def kept(run_dir: object, request: RunRequest, limits: object) -> None:
        requests.append(request)
        raise KeyboardInterrupt  # before it starts

    monkeypatch.setattr(subagents, "write_spec", kept)
    kind = user_file(os.environ).parent / "agents" / "worker.md"
    kind.parent.mkdir(parents=True)
    kind.write_text("---\nname: worker\ndescription: does anything\n---\nDo it.\n")
    with pytest.raises(KeyboardInterrupt):
        go(repo, '<delegate kind="worker">do it</delegate>', mode="auto", plan_only=True)
    assert [request.mode for request in requests] == ["read-only"]
