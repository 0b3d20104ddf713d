"""A subagent gets no more permissions than its parent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from repoagent.config.settings import user_file
from repoagent.errors import Refused
from repoagent.git.transaction.results import Options
from repoagent.llm.usage import Limits
from repoagent.storage.layout import Layout
from repoagent.tasks import run_context, subagents
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.runs.directory import RunDirectory
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


@pytest.mark.parametrize("change", [{"mode": "any"}, {"tools": None}, {"allow": [1]}, {"cost": "1"}])
def test_a_specification_is_read_back_unless_it_is_malformed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    run_dir = RunDirectory(Layout(tmp_path, tmp_path), "x")
    commit, limits = Options(no_commit=True), Limits(2, cost=0.5)
    request = RunRequest("do it", "x", "worker", "y", commit=commit, tools=frozenset({"read"}), allow=("ls",))
    run_context.write_spec(run_dir, request, limits)
    assert run_context.read_spec(run_dir) == (request, limits)
    spec = json.loads(run_dir.subagent.read_bytes())
    del spec["day"]  # an earlier version has no limit for the day
    run_dir.subagent.write_text(json.dumps(spec))
    assert run_context.read_spec(run_dir) == (request, limits)
    run_dir.subagent.write_text(json.dumps({**spec, **change}))
    with pytest.raises(Refused, match="is malformed"):
        run_context.read_spec(run_dir)
