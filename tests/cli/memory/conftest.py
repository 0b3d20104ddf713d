"""`repoagent memory ARGUMENTS` in this process, and a repository with memories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repoagent.llm.conversation import Turn, append
from repoagent.memory.edit_records import EditRecord, append_edit
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import remember
from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.memory.conftest import Workspace, text, workspace_at


@pytest.fixture
def context(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Workspace:
    """`src/a.py` and `src/b.py`, committed (once for all tests) and remembered."""
    template = tmp_path_factory.getbasetemp() / "two-files"
    if not template.exists():
        repo: GitRepo = request.getfixturevalue("repo")
        repo.write("src/a.py", text("a"))
        repo.write("src/b.py", text("b"))
        repo.commit("two files")
        repo.top.rename(template)
    shutil.copytree(template, tmp_path / "repo")
    context = workspace_at(tmp_path / "repo")
    context.repo.git("update-index", "-q", "--refresh")
    head = (template / ".git/refs/heads/main").read_text().strip()
    for path in ("src/a.py", "src/b.py"):
        remember(context.layout, context.worktree, path, context.repo.read(path), commit=head)
    return context


@pytest.fixture
def ask(context: Workspace, in_process: Ask) -> Ask:
    """`repoagent memory ARGUMENTS` in this process, at the top or in `cwd`."""
    top = context.worktree.top
    return lambda *arguments, cwd=top, **more: in_process("memory", *arguments, cwd=cwd, **more)


def talked(memory: Memory, number: int) -> None:
    """Exchange number `number` about the file, and the record of its edit."""
    edit, time, request = f"e{number}", f"2026-11-{number:02}T10:00:00+00:00", f"request {number}"
    append(
        memory.conversation,
        Turn("user", request, {"edit": edit, "time": time}),
        Turn("assistant", f"answer {number}\x1b[31m", {"model": "m"}),
    )
    append_edit(memory.edits, EditRecord(edit, time, "src/a.py", request, "1" * 40, "2" * 40, "3" * 40))
