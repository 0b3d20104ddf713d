"""The specification of a subagent."""

from __future__ import annotations

from repoagent.llm.usage import Limits
from repoagent.tasks.run_context import RunRequest
from repoagent.tasks.subagents import read_spec, write_spec
from tests.conftest import GitRepo
from tests.tasks.bare import NAME, run_dir


def test_a_specification_of_an_earlier_version_has_no_limit_for_the_day(repo: GitRepo) -> None:
    write_spec(run_dir(repo), RunRequest("Where?", NAME), Limits(turns=1, cost=2.0, day=3.0))
    spec = run_dir(repo).subagent
    spec.write_text(spec.read_text().replace('"day"', '"other"'))
    assert read_spec(run_dir(repo))[1] == Limits(turns=1, cost=2.0)
