"""The examples in the documentation work."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.agent.actions import Action, Observation
from repoagent.agent.approvals.policy import Gate
from repoagent.agent.loop import run_loop
from repoagent.agent.state import State, Tool
from repoagent.cli.app import cli
from repoagent.cli.run_program import run as run_command
from repoagent.edit.guards.off_limits import off_limits_gate
from repoagent.edit.tools import search_files
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence
from repoagent.llm.usage import Limits
from repoagent.tasks.agent_types import find_agent_types
from repoagent.tasks.skills import find_skills, skill_folders
from repoagent.tasks.user_programs import plugin_tools
from tests.conftest import GitRepo

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.soak
def test_the_documented_programs_are_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top").mkdir()
    programs = {"sql": blocks("plugins.md", "python")[0], "server-log": blocks("plugins.md", "sh")[0]}
    for name, text in programs.items():
        assert len(text.splitlines()) <= 24
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    with closing(sqlite3.connect(tmp_path / "top" / "app.db")) as database:
        database.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (42)")
    (tmp_path / "log").write_text("one\ntwo\nthree\n")
    monkeypatch.setenv("SERVER_LOG", str(tmp_path / "log"))
    warnings: list[str] = []
    sql, log = plugin_tools(
        tmp_path / "top", [str(tmp_path / name) for name in programs], used=(), decide=Gate("read-only").decide,
        warn=warnings.append, audit=lambda event: None,
    )  # fmt: skip
    assert warnings == []
    assert sql.text in (DOCS / "plugins.md").read_text()
    rows = sql.perform(Action("sql", {}, "SELECT a FROM t"))
    assert (rows.ok, rows.data) == (True, {"rows": 1}) and "(42,)" in rows.text
    written = sql.perform(Action("sql", {}, "INSERT INTO t VALUES (1)"))
    assert not written.ok and "readonly" in written.text
    assert "two\nthree\n</output" in log.perform(Action("server-log", {"lines": "2"})).text


def test_the_documented_agent_runs_without_a_model(repo: GitRepo) -> None:
    names: dict[str, object] = {}
    text = blocks("plugins.md", "python")[1]
    assert len(text.splitlines()) <= 24
    exec(compile(text, "leftovers.py", "exec"), names)
    repo.commit(**{"a.py": "x = 1  # TODO: two\n# FIXME\n", "b.py": "y = 2\n"})

    def perform(action: Action) -> Observation:
        found = search_files(repo.top, action.args["pattern"], off_limits_gate(repo.top, [])).rows
        return Observation("search", fence("\n".join(found), "matches"))

    made = names["Leftovers"]
    assert isinstance(made, type)
    state = State((Turn("user", "what is left to do?"),), plan="# Plan\n- [ ] 1. One\n- [x] 2. Two\n")
    outcome = run_loop(made(model=None), [Tool("search", "<search/>", perform)], state)
    assert (outcome.kind, outcome.text) == ("finished", "2 places and 1 tasks are left to do.")


AGENT = """
from repoagent.agent.actions import render_action, Action
from repoagent.llm.conversation import Turn

def counts(*args, **given):
    return Counts()

class Counts:
    def step(self, state):
        news = "; ".join(f"{turn.role} {turn.meta.get('kind', '')}" for turn in state.news)
        if all(turn.role != "assistant" for turn in state.turns):
            return Turn("assistant", '<task add="Look"/>\\n<delegate kind="explore">Where?</delegate>')
        plan = "Look" if "- [ ] 1. Look" in state.plan else "no plan"
        model = "no model" if "needs a model, and none" in state.news[-1].text else state.news[-1].text
        return Turn("assistant", f'<task n="1" state="done"/>\\n<finish>news: {news}. plan: {plan}. {model}</finish>')
"""


def test_an_agent_of_a_package_needs_no_model(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sees the turns since its last step, and the plan; a subagent, which needs a model, is refused."""
    package = tmp_path / "site"
    about = package / "mine-1.dist-info"
    about.mkdir(parents=True)
    (package / "my_agents.py").write_text(AGENT)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[repoagent.agents]\ncounts = my_agents:counts\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.chdir(repo.top)
    command = ["run", "--mode", "auto", "--max-cost", "1", "Count."]
    assert run_command(cli, "repoagent", command) == 4
    assert "no model is configured" in capsys.readouterr().err
    assert run_command(cli, "repoagent", [*command, "--agent", "counts"]) == 0
    said = capsys.readouterr().out
    assert "observation task; observation delegate" in said and "plan: Look. no model" in said


def test_the_documented_files_are_read_without_a_warning(tmp_path: Path) -> None:
    (skill,) = blocks("skills.md", "markdown")
    (kind,) = blocks("agents.md", "markdown")
    for path, text in {"skills/release/SKILL.md": skill, "agents/why.md": kind}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    warnings: list[str] = []
    top = tmp_path / "top"
    (found,) = find_skills(skill_folders(top, top / ".repoagent", tmp_path), warnings.append)
    assert found.description.endswith("Use it when a version is asked for.")
    why = find_agent_types(tmp_path, warnings.append)["why"]
    assert why.limits == Limits(turns=20, cost=0.25) and "run" in (why.tools or ())
    assert warnings == []
