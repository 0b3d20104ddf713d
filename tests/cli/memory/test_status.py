"""`repoagent memory status`: numbers, states, and whether locks work."""

from __future__ import annotations

import errno
import fcntl
import json

import pytest

from repoagent.memory.notes import add_note
from repoagent.storage.locks import locked
from tests.cli.applying import program
from tests.cli.memory.conftest import Ask, known, talked
from tests.conftest import GitRepo
from tests.memory.conftest import Desk


def test_without_memories_nothing_is_created(repo: GitRepo) -> None:
    done = program(repo.top, "memory", "status")
    assert done.code == 0 and done.out.startswith("memories   0\n") and done.err == ""
    assert repo.status() == "" and not (repo.top / ".repoagent").exists()


def test_everything_is_counted(ask: Ask, context: Desk) -> None:
    memory = known(context, "src/a.py")
    add_note(memory.notes, "one")
    talked(memory, 1)
    (context.worktree.top / "src/b.py").unlink()
    (context.layout.memory / "empty-00000000").mkdir()
    (memory.folder / "identity.json.broken-1").write_text("x")
    (context.layout.root / "memory.db.broken-2").write_text("x")
    lock = memory.folder / "notes.md.lock"
    with locked(lock, what="it"):
        done = ask("status")
        value = json.loads(ask("status", "--json").out)
    for line in (
        "memories   2: 1 live, 1 orphaned",
        "unusable   empty-00000000 has no readable identity.json",
        "contents   1 note, 1 edit",
        "options    memory.enabled = true",
        "sent.keep_days = 30",
        "identity.json.broken-1",
        "notes.md.lock: process ",
    ):
        assert line in done.out
    assert value["states"] == {"live": 1, "moved": 0, "orphaned": 1} and value["unusable"] == [
        "empty-00000000"
    ]
    assert (
        len(value["set_aside"]) == 2
        and value["locks"][0]["lock"] == str(lock)
        and value["lock_problem"] is None
    )
    assert "none held; locking works" in ask("status").out
    assert [path.name for path in context.layout.memory.glob(".lock-test*")] == []


def test_a_file_system_without_locks_says_so(
    ask: Ask, context: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    done = ask("status")
    assert done.code == 0 and "has no file locks (NFS without a lock service?)" in done.err
    assert "locking works" not in done.out
    notes = next(context.layout.memory.glob("a-py-*")) / "notes.md"
    done = ask("note", "src/a.py", "x is y")
    assert done.code == 3 and "has no file locks" in done.err and "clone on a local disk" in done.err
    assert not notes.exists()
    assert "has no file locks" in json.loads(ask("status", "--json").out)["lock_problem"]


def test_locks_that_do_not_exclude_are_reported(
    ask: Ask, context: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: None)
    done = ask("status")
    assert done.code == 0 and "grants a lock twice" in done.err
