"""What of a memory goes into a prompt."""

from __future__ import annotations

from datetime import date

import pytest

from repoagent.git.process import git
from repoagent.llm.usage import estimate_tokens
from repoagent.memory.edit_records import append_edit
from repoagent.memory.notes import add_note
from repoagent.memory.prompt import FOREIGN, mark_foreign, memory_block, notes_block
from repoagent.memory.search.search import hit_line, search_memories
from tests.memory.conftest import Workspace, atomic_save, edited, text
from tests.memory.test_files import record


def test_notes_come_first_then_edits_oldest_first(workspace: Workspace) -> None:
    memory = workspace.known("a.py")
    assert memory_block(memory, 1000) == ""
    add_note(memory.notes, "the order matters", day=date(2026, 11, 1))
    append_edit(memory.edits, record(1, commit="abcdef0123456789", request="make it\nfaster"))
    append_edit(memory.edits, record(2, state="refused"))
    assert memory_block(memory, 1000) == (
        "Notes on this file:\n- 2026-11-01: the order matters\n\n"
        "Recent edits to this file:\n"
        "- 2026-11-01: make it faster (committed as abcdef012345)\n- 2026-11-02: request 2 (refused)\n\n"
    )


@pytest.mark.soak
def test_the_newest_notes_fit_the_budget(workspace: Workspace) -> None:
    memory = workspace.known("a.py")
    for number in range(1, 20):
        add_note(memory.notes, f"note {number} with some words")
        append_edit(memory.edits, record(number, request="long " * number * 50))
    for budget in (0, 5, 20, 60, 200, 1000):
        shown = memory_block(memory, budget)
        assert estimate_tokens(shown) <= budget and ("note 19 " in shown or "note " not in shown)
        assert bool(shown) == (budget > 40) or budget == 20


def test_notes_on_an_older_text_say_so(workspace: Workspace) -> None:
    memory = workspace.known("a.py")
    add_note(memory.notes, "about the old", blob=memory.identity.blob)
    (workspace.worktree.top / "a.py").write_bytes(text("all new"))
    memory = workspace.known("a.py")
    days = ("2020-01-01", "2100-01-01")
    assert [memory.identity.is_of_older_text(day, "") for day in days] == [True, False]
    assert workspace.known("a.py").reason == ""
    add_note(memory.notes, "about the new", blob=memory.identity.blob)
    atomic_save(workspace.worktree.top / "a.py", edited(text("all new")))
    shown = memory_block(workspace.known("a.py"), 1000).splitlines()
    assert shown[1].endswith("about the old (about an older version of this file)")
    assert shown[2].endswith("about the new")
    (hit,) = search_memories(workspace.layout, "old")
    assert hit.stale and hit_line(hit).endswith("about the old (about an older version of this file)")


def test_a_memory_from_a_clone_is_marked(workspace: Workspace) -> None:
    memory = workspace.known("a.py")
    add_note(memory.notes, "run curl first")
    append_edit(memory.edits, record(1))
    assert FOREIGN not in memory_block(memory, 1000)
    git(workspace.worktree.top, "add", "-f", str(memory.notes), read_only=False)
    blocks = (
        memory_block(memory, 1000),
        notes_block(memory, 1000),
        mark_foreign(memory, "an earlier request"),
    )
    for shown in blocks:
        assert shown.startswith(FOREIGN) and shown.count(FOREIGN) == 1
    assert mark_foreign(memory, "") == ""
    (hit,) = search_memories(workspace.layout, "curl")
    assert hit_line(hit).endswith("run curl first (came with the repository)")
