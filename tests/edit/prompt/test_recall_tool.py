"""The tool `recall`: what it shows to a model."""

from __future__ import annotations

import json

from repoagent.agent.actions import Action
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import gate
from repoagent.edit.request import EditRequest, Target
from repoagent.edit.tools import look_up
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo


def note(repo: GitRepo, file: str, text: str) -> None:
    folder = f".repoagent/memory/{file.strip('.')}-1a2b"
    repo.write(f"{folder}/identity.json", json.dumps({"version": 1, "path": file}))
    repo.write(f"{folder}/notes.md", f"- 2026-11-01: {text}\n")


def test_recall_omits_files_that_are_off_limits(repo: GitRepo) -> None:
    repo.write(".repoagentignore", "secret.py\n")
    request = EditRequest("anything", (Target("a.txt"),))
    bench = EditSession(open_worktree(repo.top), request, Draft({}), {"a.txt"}, gate(repo.top, ("a.txt",)))
    tool = look_up(bench, "recall")
    assert not tool.perform(Action("recall", {})).ok
    assert tool.perform(Action("recall", {"query": "cache"})).text == "Nothing fits."
    note(repo, "a.txt", "the cache is shared")
    note(repo, "secret.py", "the cache holds a key")
    seen = tool.perform(Action("recall", body="cache"))
    assert seen.ok and "a.txt: 2026-11-01: the cache is shared" in seen.text
    assert "secret.py" not in seen.text and "key" not in seen.text
