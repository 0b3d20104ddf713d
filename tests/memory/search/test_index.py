"""The index on disk: missing, broken, foreign, newer or read-only; correct after edits, kills and concurrent use."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Busy, Refused
from repoagent.llm.conversation import Turn
from repoagent.memory.search import index
from repoagent.memory.search.search import search_memories
from repoagent.storage import database
from repoagent.storage.atomic import read_regular
from repoagent.storage.locks import hold_lock
from tests.memory.search.memory_files import MemoryFiles, layout_at


@pytest.fixture
def parser(memories: MemoryFiles) -> MemoryFiles:
    """Memories with one note; `expect` finds it."""
    memories.notes("b.py", "one parser")
    return memories


def expect(memories: MemoryFiles, warnings: int = 0) -> None:
    """The note is found, with this number of warnings in total."""
    assert [hit.file for hit in memories.search("parser")] == ["b.py"]
    assert len(memories.warnings) == warnings


@pytest.mark.parametrize("damage", ["empty", "foreign", "cut", "torn", "zeros", "of another program"])
def test_a_broken_index_is_made_again(parser: MemoryFiles, damage: str) -> None:
    parser.notes("a.py", *(f"the cache number {number} is shared with {number * 7}" for number in range(200)))
    expect(parser)
    place, other = parser.root / "recall.db", parser.root / "other.db"
    data = place.read_bytes()
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE words (mine)")
    broken = {
        "of another program": other.read_bytes(),
        "empty": b"",
        "foreign": b"not a database at all\n" * 100,
        "cut": data[: len(data) // 2 // 4096 * 4096 + 100],
        "torn": data[:4096] + os.urandom(len(data) - 4096),
        "zeros": data[:8192] + bytes(len(data) - 8192),
    }[damage]
    place.write_bytes(broken)
    expect(parser, warnings=damage != "empty")
    expect(parser, warnings=damage != "empty")  # the first search uses a temporary index
    assert parser.rows() == parser.rebuilt()
    if damage != "empty":
        assert (parser.root / "recall.db.broken-1").read_bytes() == broken
        assert "recall.db.broken-1" in parser.warnings[0]


def test_a_broken_index_in_a_folder_without_write_permission(
    parser: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    (parser.root / "recall.db").write_bytes(b"not a database at all\n" * 100)
    monkeypatch.setattr(database, "set_aside_broken", Mock(side_effect=Refused("cannot rename recall.db")))
    expect(parser, warnings=1)
    assert parser.warnings == ["cannot rename recall.db; building a temporary index for this search"]


def test_a_missing_or_older_index_is_made_again_and_a_newer_one_not_changed(parser: MemoryFiles) -> None:
    expect(parser)
    (parser.root / "recall.db").unlink()
    expect(parser)
    with closing(sqlite3.connect(parser.root / "recall.db")) as connection, connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("DROP TABLE passage")
    expect(parser)
    assert parser.rows() == parser.rebuilt() and not list(parser.root.glob("*.broken-*"))
    with closing(sqlite3.connect(parser.root / "recall.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = (parser.root / "recall.db").read_bytes()
    expect(parser, warnings=1)
    assert (parser.root / "recall.db").read_bytes() == before
    assert "version 99" in parser.warnings[0]


@pytest.mark.parametrize("name", ["recall.db", "recall.db-wal", "recall.lock"])
def test_a_link_is_not_followed(parser: MemoryFiles, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    (parser.root / name).symlink_to(other)
    expect(parser, warnings=1)
    assert other.read_bytes() == b"" and name in parser.warnings[0]


def test_links_and_other_non_files_are_left_out(memories: MemoryFiles, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("- the parser of a stranger\n")
    for folder in ("one", "two"):
        memories.memory(f"{folder}.py", folder)
    (memories.root / "memory/one/notes.md").symlink_to(tmp_path / "secret")
    os.mkfifo(memories.root / "memory/two/notes.md")
    (memories.root / "memory/three").symlink_to(tmp_path)
    (memories.root / "conversations").symlink_to(tmp_path)
    assert memories.files("parser") == [] and not memories.warnings


def test_another_process_holds_the_lock(parser: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repoagent.memory.search.index._WAIT", 0.05)
    lock = parser.root / "recall.lock"
    with hold_lock(lock, label="the index"), pytest.raises(Busy, match="cannot lock the search index"):
        parser.search("parser")
    expect(parser)
    assert {stat.S_IMODE(path.stat().st_mode) for path in parser.root.glob("recall.*")} == {0o600}
    with hold_lock(lock, label="the index"):
        time.sleep(0.06)  # the first look was too near to the writing to be sure of
    expect(parser)


def test_edits_by_hand_are_seen_at_once(memories: MemoryFiles) -> None:
    notes = memories.notes("a.py", "the parser is slow")
    for word in ("alpha", "gamma", "delta", "sigma", "omega"):  # of one length, within one tick of the clock
        with notes.open("r+b") as file:
            file.write(f"- the parser is {word}".encode())
        assert memories.files(word) == ["a.py"]
        assert all(word in str(row) for row in memories.rows() if "parser" in str(row))


def test_only_changed_files_are_read(memories: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        memories.notes(f"{name}.py", f"the parser {name}")
        memories.conversation(f"memory/{name}-py-1a2b/conversation.md", Turn("user", "parser"))
    for place in memories.root.rglob("*.*"):
        os.utime(place, (1_700_000_000.5, 1_700_000_000.5))
    assert memories.files("parser")
    read: list[str] = []

    def counted(path: Path) -> bytes | None:
        read.append(path.name)
        return read_regular(path)

    monkeypatch.setattr(index, "read_regular", counted)
    assert memories.files("parser") and read == []
    with (memories.root / "memory/b-py-1a2b/notes.md").open("a") as file:
        file.write("- and the lexer\n")
    assert memories.files("lexer") == ["b.py"] and read == ["notes.md"]


def test_passages_follow_a_renamed_file(memories: MemoryFiles) -> None:
    memories.notes("old.py", "the parser is slow")
    assert memories.files("parser") == ["old.py"]
    memories.memory("src/new.py", "old-py-1a2b")
    assert memories.files("parser") == ["src/new.py"]
    memories.write("memory/old-py-1a2b/identity.json", "broken")
    assert [hit.name for hit in memories.search("parser")] == ["old-py-1a2b"]
    assert memories.rows() == memories.rebuilt()


_PARTS = ("notes.md", "edits.jsonl", "conversation.md", "identity.json")
_FILES = [f"memory/{name}/{part}" for name in "ab" for part in _PARTS]
_FILES += ["conversations/x.md", f"summaries/ab/{'c' * 38}.json", "summaries/files/ab/cd.md"]
_TEXTS = st.sampled_from(
    [
        b"", b"\0\xff\xfe", b"- one note\n- two\n  lines\n", b'{"id": "1", "request": "do it", "state": "x"}\n' * 2,
        b'{"version": 1, "path": "a.py"}', b'{"version": 1, "path": "\\ud800"}', b'{"version": 99}', b"[" * 5000,
        b'{"version": 1, "summary": "did it", "files": {"a.py": "well", "b": 3}}', b"version: 1\nabout: a.py\n\nIt is.",
        b"# repoagent conversation, version 1, nonce 7f3a9c21\n\n## [7f3a9c21] user\nhello\nyou\n",
        b"# repoagent conversation, version 9, nonce 7f3a9c21\n", b"long " * 3000,
    ]
) | st.binary(max_size=30)  # fmt: skip
_STEPS = st.lists(st.tuples(st.sampled_from(_FILES), st.none() | _TEXTS), min_size=1, max_size=8)


@pytest.mark.soak
@settings(max_examples=25, deadline=None)
@given(st.lists(_STEPS, min_size=1, max_size=3))
def test_an_updated_index_equals_a_rebuilt_one(rounds: list[list[tuple[str, bytes | None]]]) -> None:
    with tempfile.TemporaryDirectory() as top:
        memories = MemoryFiles(Path(top))
        memories.write("conversations/always.md", "there is something")
        for steps in rounds:
            for path, data in steps:
                if data is None:
                    (memories.root / path).unlink(missing_ok=True)
                else:
                    memories.write(path, data)
            memories.search("note it hello")
            assert memories.rows() == memories.rebuilt()


_SEARCH = """
import sys
from repoagent.memory.search import index
from repoagent.memory.search.search import search_memories
from tests.memory.search.memory_files import layout_at
from pathlib import Path
for word in sys.argv[2:]:
    print(len(search_memories(layout_at(Path(sys.argv[1])), word)), flush=True)
"""


def searching(top: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SEARCH, str(top), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.soak
def test_a_kill_at_any_moment_leaves_an_index(memories: MemoryFiles, tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(150):
        memories.notes(f"f{number}.py", *(f"the parser of part {part} in {number}" for part in range(20)))
    for turn in range(25):
        memories.notes(f"f{turn}.py", f"a lexer in turn {turn}")
        if turn % 5 == 0:
            (memories.root / "recall.db").unlink(missing_ok=True)
        process = searching(tmp_path, "parser")
        time.sleep(chance.uniform(0.1, 0.9))
        process.kill()
        process.communicate(timeout=60)
        assert search_memories(layout_at(tmp_path), f'"lexer in turn {turn}"', warn=memories.warnings.append)
    assert memories.rows() == memories.rebuilt() and not memories.warnings


@pytest.mark.soak
def test_writers_and_searchers_at_once(memories: MemoryFiles, tmp_path: Path) -> None:
    for number in range(40):
        memories.notes(f"f{number}.py", "the parser")
    crowd = [searching(tmp_path, *["parser"] * 60) for _ in range(4)]
    for turn in range(200):
        memories.edits(f"f{turn % 40}.py", *(f"parser {number}" for number in range(turn % 7)))
    for each in crowd:
        out, err = each.communicate(timeout=120)
        assert (len(out.split()), err) == (60, "")
    memories.search("parser")
    assert memories.rows() == memories.rebuilt() and not memories.warnings
