"""Cleanup of old conversations: a line for each request stays, the text is removed everywhere."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from repoagent.llm.conversation import append
from repoagent.memory.compaction import compact
from repoagent.memory.edit_records import read_edits
from repoagent.memory.gc import forget_conversations, forget_daily
from repoagent.memory.identity.record import Memory
from repoagent.memory.notes import read_notes
from repoagent.storage.locks import locked
from tests.memory.archive.conftest import edit_of, fail, turns
from tests.memory.conftest import Desk

NOW = time.time()


def ago(days: int) -> str:
    return (datetime.fromtimestamp(NOW, timezone.utc) - timedelta(days=days)).isoformat(timespec="seconds")


def spoken(desk: Desk, *days: int) -> Memory:
    memory = desk.remember("a.py")
    for number in days:
        append(memory.conversation, *turns(f"of-{number}", f"secret words {number}", ago(number)))
    return memory


def everything(folder: Path) -> str:
    return "".join(
        path.read_text() for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".z"
    )


def test_old_exchanges_are_removed_and_leave_a_line(desk: Desk) -> None:
    memory = spoken(desk, 50, 40, 3)
    from repoagent.memory.edit_records import append_edit

    append_edit(memory.edits, edit_of("of-50", time=ago(50)))
    before = everything(desk.layout.root)
    would = forget_conversations(desk.layout, 30, apply=False, now=NOW, warn=fail)
    assert would.exchanges == 2 and everything(desk.layout.root) == before
    assert forget_conversations(desk.layout, 30, now=NOW, warn=fail).exchanges == 2
    after = everything(desk.layout.root)
    assert "secret words 3" in after and "secret words 4" not in after and "secret words 50" not in after
    assert [note.text.split(" (")[0] for note in read_notes(memory.notes)] == ["please of-50", "please of-40"]
    assert all("; removed)" in note.text for note in read_notes(memory.notes))
    assert [edit.id for edit in read_edits(memory.edits)] == ["of-50"]
    assert (
        not forget_conversations(desk.layout, 30, now=NOW, warn=fail)
        and everything(desk.layout.root) == after
    )


def test_all_of_it_may_be_too_old(desk: Desk) -> None:
    memory = spoken(desk, 50)
    forget_conversations(desk.layout, 0, now=NOW, warn=fail)
    assert "secret" not in everything(desk.layout.root)
    append(memory.conversation, *turns("new", "said now"))
    assert "said now" in memory.conversation.read_text()


def test_an_archived_conversation_is_removed_when_all_of_it_is_old(desk: Desk) -> None:
    memory = spoken(desk, 60, 50, 40, 2, 1)
    assert compact(memory) is not None
    for path in (desk.layout.conversations / ".past").rglob(
        "*.md"
    ):  # copies to take that back go with their own age
        os.utime(path, (NOW - 9e6, NOW - 9e6))
    forget_conversations(desk.layout, 45, now=NOW, warn=fail)
    assert "secret words 60" in everything(memory.folder)  # one of the same part is too young
    forget_conversations(desk.layout, 30, now=NOW, warn=fail)
    text = everything(desk.layout.root)
    assert "secret words 60" not in text and "secret words 40" not in text and "secret words 2" in text


def test_undated_and_broken_exchanges_stay(desk: Desk) -> None:
    memory = desk.remember("a.py")
    append(memory.conversation, *turns("x", "words without a day", ""))
    forget_conversations(desk.layout, 0, now=NOW, warn=fail)
    assert "words without a day" in memory.conversation.read_text()
    memory.conversation.write_text("mangled")
    said: list[str] = []
    forget_conversations(desk.layout, 0, now=NOW, warn=said.append)
    assert memory.conversation.read_text() == "mangled" and len(said) == 1


def test_unfinished_edits_go_unless_they_are_at_work(desk: Desk) -> None:
    folder = desk.layout.conversations
    for name in ("edit-1", "edit-2", "kept-3", "named"):
        append(folder / f"{name}.md", *turns(name))
        os.utime(folder / f"{name}.md", (NOW - 90 * 86_400,) * 2)
    append(folder / "edit-4.md", *turns("young"))
    with locked(desk.layout.locks / "edit-2", what="the edit 2"):
        found = forget_conversations(desk.layout, 30, now=NOW, warn=fail)
    assert found.unfinished == 2
    assert sorted(path.name for path in folder.glob("*.md")) == ["edit-2.md", "edit-4.md", "named.md"]


def test_it_is_looked_at_once_a_day(desk: Desk) -> None:
    memory = spoken(desk, 50)
    forget_daily(desk.layout, 60, warn=fail)
    forget_daily(desk.layout, 30, warn=fail)
    assert "secret words 50" in memory.conversation.read_text()
    looked = desk.layout.private / "conversations-looked-through"
    os.utime(looked, (NOW - 86_500,) * 2)
    forget_daily(desk.layout, 30, warn=fail)
    assert "secret words 50" not in memory.conversation.read_text()
