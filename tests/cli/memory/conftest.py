"""`repoagent memory ARGUMENTS` in this process, and a repository with memories."""

from __future__ import annotations

import pytest

from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory.edit_records import EditRecord, append_edit
from repoagent.memory.identity.record import Memory
from tests.cli.apply_patch import Ask
from tests.memory.conftest import Committed, Workspace, committed, text, workspace_at

__all__ = ["committed"]


@pytest.fixture
def context(committed: Committed) -> Workspace:
    """`src/a.py` and `src/b.py`, committed and remembered."""
    context = workspace_at(committed(**{"src/a.py": text("a"), "src/b.py": text("b")}).top)
    for path in ("src/a.py", "src/b.py"):
        context.remember(path)
    return context


@pytest.fixture
def ask(context: Workspace, in_process: Ask) -> Ask:
    """`repoagent memory ARGUMENTS` in this process, at the top or in `cwd`."""
    top = context.worktree.top
    return lambda *arguments, cwd=top, **more: in_process("memory", *arguments, cwd=cwd, **more)


def talked(memory: Memory, number: int) -> None:
    """Exchange number `number` about the file, and the record of its edit."""
    edit, time, request = f"e{number}", f"2026-11-{number:02}T10:00:00+00:00", f"request {number}"
    append_turns(
        memory.conversation,
        Turn("user", request, {"edit": edit, "time": time}),
        Turn("assistant", f"answer {number}\x1b[31m", {"model": "m"}),
    )
    append_edit(memory.edits, EditRecord(edit, time, "src/a.py", request, "1" * 40, "2" * 40, "3" * 40))
