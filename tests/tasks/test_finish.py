"""Reasons not to finish are sent to the model or repaired; they do not end the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.errors import CheckFailed
from repoagent.git.worktree import layout, open_worktree
from repoagent.llm.model import Request
from repoagent.tasks.runs.directory import RunDirectory
from tests.conftest import GitRepo
from tests.tasks.bare import DONE, EDIT, NAME, go

FLOW = "<run>mkdir -p .github/workflows; echo 'on: push' >> .github/workflows/x.yml</run>"


def test_a_sensitive_file_is_refused_to_the_model(repo: GitRepo) -> None:
    repo.commit(**{"f.txt": "one\n", ".github/workflows/x.yml": "on: pull\n"})
    restore = '<restore path=".github/workflows/x.yml"/>'
    outcome, model, _ = go(repo, EDIT, FLOW, DONE, restore + DONE, mode="ask")
    assert "is run by a server on a push" in model.last_prompt
    assert (outcome.kind, repo.status()) == ("done", "")
    assert repo.git("show", "--format=", "--name-only", "HEAD") == "f.txt\n"


def test_three_refusals_of_a_sensitive_file_end_the_run(repo: GitRepo) -> None:
    before = repo.commit(**{"f.txt": "one\n", ".github/workflows/x.yml": "on: pull\n"})
    with pytest.raises(CheckFailed, match="after 3 tries"):
        go(repo, EDIT, FLOW, DONE, f"<run>ls</run>\n{DONE}", f"<run>pwd</run>\n{DONE}", mode="ask")
    assert (repo.head(), repo.read("f.txt")) == (before, b"two\n")


def test_a_failed_check_of_a_read_only_run(repo: GitRepo) -> None:
    repo.commit(**{"f.txt": "one\n"})
    with pytest.raises(CheckFailed, match="after 3 tries") as error:
        go(repo, DONE, f"<run>ls</run>\n{DONE}", f"<run>pwd</run>\n{DONE}", mode="read-only", check="false")
    assert "Your files contain" not in str(error.value) and "Resume with" in str(error.value)


@pytest.mark.parametrize("only", [{"mode": "read-only"}, {"plan_only": True}])
def test_a_read_only_run_offers_no_changes(repo: GitRepo, only: dict[str, object]) -> None:
    repo.commit(**{"f.txt": "one\n"})
    _, model, _ = go(repo, '<delegate kind="edit">change it</delegate>', DONE, **only)
    assert (
        "what was done, and how it was checked" not in model.last_prompt
        and "\n- edit:" not in model.last_prompt
    )
    assert "unknown kind edit: choose one of explore" in model.last_prompt


def _plan(repo: GitRepo) -> Path:
    return RunDirectory(layout(open_worktree(repo.top)), NAME).plan


@pytest.mark.parametrize("broken", ["folder", "latin-1"])
def test_an_unreadable_plan_is_renamed_and_rebuilt(repo: GitRepo, broken: str) -> None:
    repo.commit(**{"f.txt": "one\n"})

    def spoil(request: Request) -> str:
        plan = _plan(repo)
        text = plan.read_text()
        plan.unlink()
        if broken == "folder":
            plan.mkdir()
            (plan / "mine").write_text("kept")
        else:
            plan.write_bytes((text + "caf\xe9\n").encode("latin-1"))
        return DONE

    task = '<task add="Make it two"/>'
    outcome, model, user = go(repo, task, EDIT, spoil, '<task n="1" state="done"/>' + DONE)
    assert "Tasks of the plan are open: 1 Make it two" in model.last_prompt
    assert (outcome.kind, len(outcome.commits)) == ("done", 1)
    assert "renamed it to plan.md.broken-1" in "\n".join(user.messages)
    aside = _plan(repo).with_name("plan.md.broken-1")
    assert (aside / "mine").read_text() == "kept" if aside.is_dir() else b"caf\xe9" in aside.read_bytes()
