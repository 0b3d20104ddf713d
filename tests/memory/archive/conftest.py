"""Two repositories with one history, and short words for what is remembered in them."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from repoagent.llm.conversation import Turn, append
from repoagent.memory import archive
from repoagent.memory.archive import Arrival
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import memories
from repoagent.memory.notes import add_note, read_notes
from tests.conftest import GitRepo
from tests.memory.conftest import Desk, desk_at, text

SOURCE = "imported from team"


def edit_of(name: str, path: str = "a.py", time: str = "2026-01-01T10:00:00+00:00") -> EditRecord:
    return EditRecord(name, time, path, f"request {name}", "1" * 40, "2" * 40, "3" * 40)


def turns(name: str, said: str = "done", time: str = "2026-01-01T10:00:00+00:00") -> list[Turn]:
    return [
        Turn("user", f"please {name}", {"edit": name, "time": time}),
        Turn("assistant", said, {"model": "m", "time": time}),
    ]


def fill(memory: Memory, *names: str) -> None:
    """An exchange, an edit and a note for each name."""
    for name in names:
        append(memory.conversation, *turns(name))
        append_edit(memory.edits, edit_of(name, memory.identity.path))
        add_note(memory.notes, f"lesson of {name}", source="anthropic/some-model")


@dataclass
class Pair:
    """`there` is where memories come from, `here` a clone of it."""

    there: Desk
    here: Desk

    def packed(self, *paths: str) -> bytes:
        chosen = archive.select_memories(self.there.layout, self.there.worktree, paths, warn=fail)
        return archive.dumps([archive.pack(memory, fail) for memory in chosen])

    def take(self, data: bytes, source: str = SOURCE, *, dry_run: bool = False) -> list[Arrival]:
        parcels = archive.read_archive(io.BytesIO(data), "team.tar.gz")
        return archive.import_memories(
            self.here.layout, self.here.worktree, parcels, source, dry_run=dry_run, warn=fail
        )


def fail(sentence: str) -> None:
    raise AssertionError(sentence)


def state(desk: Desk) -> dict[str, bytes]:
    """Every file of the memories, but locks and indexes."""
    root = desk.layout.memory
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


def told(desk: Desk, path: str) -> tuple[list[str], list[str], list[str]]:
    """The notes, edits and requests of a file."""
    memory = next(one for one in memories(desk.layout, warn=fail) if one.identity.path == path)
    said = archive.turns_of(memory.conversation.read_bytes()) if memory.conversation.exists() else ()
    return (
        [note.text for note in read_notes(memory.notes)],
        [edit.id for edit in read_edits(memory.edits)],
        [turn.text for turn in said if turn.role == "user"],
    )


@pytest.fixture
def pair(repo: GitRepo, tmp_path: Path, make_pair: Callable[[GitRepo], Pair]) -> Pair:
    """`a.py` and `b.py`, remembered where they come from."""
    repo.write("a.py", text("a"))
    repo.write("b.py", text("b"))
    repo.commit("two files")
    return make_pair(repo)


@pytest.fixture
def make_pair(tmp_path: Path) -> Callable[[GitRepo], Pair]:
    def make(repo: GitRepo) -> Pair:
        repo.git("clone", "-q", str(repo.top), str(tmp_path / "here"))
        there = desk_at(repo.top)
        there.remember("a.py")
        there.remember("b.py")
        return Pair(there, desk_at(tmp_path / "here"))

    return make
