"""Two repositories with one history, and builders for what is remembered in them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory import archive
from repoagent.memory.archive import ImportResult
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import read_memories
from repoagent.memory.notes import add_note, read_notes
from tests.conftest import GitRepo
from tests.memory.conftest import Workspace, fail, text, workspace_at


def edit_of(name: str, path: str = "a.py", time: str = "2026-01-01T10:00:00+00:00") -> EditRecord:
    return EditRecord(name, time, path, f"request {name}", "1" * 40, "2" * 40, "3" * 40)


def turns(name: str, reply: str = "done", time: str = "2026-01-01T10:00:00+00:00") -> list[Turn]:
    request = Turn("user", f"please {name}", {"edit": name, "time": time})
    return [request, Turn("assistant", reply, {"model": "m", "time": time})]


def fill(memory: Memory, *names: str) -> None:
    """An exchange, an edit and a note for each name."""
    for name in names:
        append_turns(memory.conversation, *turns(name))
        append_edit(memory.edits, edit_of(name, memory.identity.path))
        add_note(memory.notes, f"lesson of {name}", source="anthropic/some-model")


@dataclass
class Pair:
    """`there` is where memories come from, `here` a clone of it."""

    there: Workspace
    here: Workspace

    def packed(self, *paths: str) -> bytes:
        known = read_memories(self.there.layout, warn=fail)
        chosen = [memory for memory in known if not paths or memory.identity.path in paths]
        return archive.dumps([archive.pack_memory(memory, fail) for memory in chosen])

    def take(self, data: bytes, source: str = "team", **options: Any) -> list[ImportResult]:
        parcels = archive.read_archive(io.BytesIO(data), "team.tar.gz")
        source, options = f"imported from {source}", {"warn": fail, **options}
        return archive.import_memories(self.here.layout, self.here.worktree, parcels, source, **options)

    def expect_nothing_new(self, data: bytes, source: str = "team") -> None:
        before = state(self.here)
        assert {arrival.outcome for arrival in self.take(data, source)} == {"same"}
        assert state(self.here) == before


def state(workspace: Workspace) -> dict[str, bytes]:
    """Every file of the memories, but locks and indexes."""
    root = workspace.layout.memory
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def content(workspace: Workspace, path: str) -> tuple[list[str], list[str], list[str]]:
    """The notes, edits and requests of a file."""
    known = read_memories(workspace.layout, warn=fail)
    memory = next(memory for memory in known if memory.identity.path == path)
    has_turns = memory.conversation.exists()
    conversation = archive.turns_of(memory.conversation.read_bytes()) if has_turns else ()
    return (
        [note.text for note in read_notes(memory.notes)],
        [edit.id for edit in read_edits(memory.edits)],
        [turn.text for turn in conversation if turn.role == "user"],
    )


@pytest.fixture
def make_pair(repo: GitRepo, tmp_path: Path) -> Callable[[bytes, bytes], Pair]:
    """Commit `a.py` and `b.py` with these bytes, and remember them where they come from."""

    def make(a: bytes, b: bytes) -> Pair:
        repo.commit("two files", **{"a.py": a, "b.py": b})
        repo.git("clone", "-q", str(repo.top), str(tmp_path / "here"))
        there = workspace_at(repo.top)
        there.remember("a.py")
        there.remember("b.py")
        return Pair(there, workspace_at(tmp_path / "here"))

    return make


@pytest.fixture
def pair(make_pair: Callable[[bytes, bytes], Pair]) -> Pair:
    return make_pair(text("a"), text("b"))
