"""The hints: they find a memory without reading all, are rebuilt if lost, and never overrule the identity files."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.memory.identity import memory_index
from repoagent.memory.identity.record import Identity, save_identity
from repoagent.memory.identity.store import memory_paths
from repoagent.storage import database
from tests.memory.conftest import Workspace, atomic_save, edited, fail, kill_after, text


@pytest.fixture(autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few memories there are, their hints are in the file, unless the parameter is larger."""
    monkeypatch.setattr(memory_index, "FEW", getattr(request, "param", 0))


@pytest.fixture
def file(workspace: Workspace) -> Path:
    return workspace.layout.root / "memory.db"


def find(workspace: Workspace, path: str) -> tuple[str | None, list[str]]:
    """The folder of the memory of `path`, and the warnings."""
    warnings: list[str] = []
    memory = workspace.resolve(path, warnings.append)
    return (None if memory is None else memory.folder.name), warnings


def execute(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def test_few_memories_need_no_file(workspace: Workspace, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_index, "FEW", 8)
    atomic_save(workspace.worktree.top / "a.py", edited(text("a")))
    assert workspace.folder("a.py") and file.exists()  # an existing one is kept up to date
    file.unlink()
    atomic_save(workspace.worktree.top / "a.py", edited(text("a"), 12))
    assert workspace.folder("a.py") and not file.exists()


@pytest.mark.soak
@pytest.mark.parametrize("damage", ["lost", "broken", "cut", "foreign", "other tables", "link", "folder"])
def test_without_its_file_nothing_is_lost(workspace: Workspace, file: Path, damage: str) -> None:
    a, b = workspace.folder("a.py"), workspace.folder("b.py")
    content = file.read_bytes()
    file.unlink()
    if damage == "link":
        file.symlink_to("/etc/hostname")
    elif damage == "folder":
        file.mkdir()
    elif damage == "other tables":
        execute(file, "CREATE TABLE x (y)")
    elif damage != "lost":
        broken = {"broken": content[:5000] + b"\xff" * 9000, "cut": content[:3000], "foreign": b"hello " * 99}
        file.write_bytes(broken[damage])
    warnings = []
    for _ in range(2):
        for path, folder in (("a.py", a), ("b.py", b)):
            name, more = find(workspace, path)
            warnings += more
            assert name == folder
    assert len(warnings) == (damage != "lost") and all("memory.db" in warning for warning in warnings)
    assert os.path.lexists(file.with_name("memory.db.broken-1")) == (damage != "lost")
    assert find(workspace, "a.py") == (a, []) and file.is_file() and file.stat().st_mode & 0o77 == 0


def test_a_newer_file_is_not_changed_and_memories_are_found(workspace: Workspace, file: Path) -> None:
    execute(file, "PRAGMA user_version = 99")
    before = file.read_bytes()
    atomic_save(workspace.worktree.top / "a.py", edited(text("a")))
    name, warnings = find(workspace, "a.py")
    assert name and warnings
    assert all("version 99" in warning and "update repoagent" in warning for warning in warnings)
    (workspace.worktree.top / "a.py").rename(workspace.worktree.top / "c.py")
    assert find(workspace, "c.py")[0] == name
    assert file.read_bytes() == before


def test_a_lock_only_costs_time(workspace: Workspace, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_WAIT", 0.01)
    a = workspace.folder("a.py")
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        name, warnings = find(workspace, "a.py")
        assert name == a and len(warnings) == 1 and "reading every memory" in warnings[0]
    assert find(workspace, "a.py") == (a, [])


def test_damage_that_shows_late_is_reported_and_mended(workspace: Workspace, file: Path) -> None:
    warnings: list[str] = []
    with (
        pytest.raises(Refused, match=r"memory\.db .* run the command again"),
        memory_index.open_index(workspace.layout, warnings.append) as opened,
    ):
        execute(file, "DROP TABLE hint")
        opened.names(memory_index.PATH, "a.py")
    assert len(warnings) == 1 and "memory.db" in warnings[0]
    assert workspace.folder("a.py")


@pytest.mark.parametrize("few", [0, 8], indirect=True)
def test_folders_copied_renamed_and_deleted_by_hand(workspace: Workspace) -> None:
    memory, folder = workspace.layout.memory, workspace.known("a.py").folder
    folder.rename(memory / "by hand")
    assert workspace.folder("a.py") == "by hand"
    shutil.copytree(memory / "by hand", memory / "copy")
    shutil.rmtree(memory / "by hand")
    assert workspace.folder("a.py") == "copy"
    assert memory_paths(workspace.layout)[0] == ("a.py", "copy")
    shutil.rmtree(memory / "copy")
    assert workspace.folder("a.py") is None
    assert [path for path, _ in memory_paths(workspace.layout)] == ["b.py"]


@pytest.mark.parametrize("few", [0, 8], indirect=True)
def test_an_identity_edited_by_hand(workspace: Workspace) -> None:
    a = workspace.known("a.py")
    assert workspace.folder("a.py")
    value = json.loads((a.folder / "identity.json").read_bytes())
    value |= {"path": "found.py", "places": {}, "keys": {}}
    (a.folder / "identity.json").write_text(json.dumps(value))
    atomic_save(workspace.worktree.top / "found.py", text("a"))
    (workspace.worktree.top / "a.py").unlink()
    assert [path for path, _ in memory_paths(workspace.layout)] == ["b.py", "found.py"]
    assert workspace.folder("found.py") == a.folder.name


def test_an_identity_rewritten_within_one_tick_of_the_clock(workspace: Workspace) -> None:
    """Time, inode and size are the same."""
    file, now = workspace.known("a.py").folder / "identity.json", time.time_ns()
    for path in ("one.py", "two.py", "six.py"):
        file.write_text(json.dumps({"version": 1, "path": path}))
        os.utime(file, ns=(now, now))
        assert path in dict(memory_paths(workspace.layout))


def test_names_that_lead_out_are_not_followed(workspace: Workspace, file: Path, tmp_path: Path) -> None:
    workspace.known("a.py").folder.rename(tmp_path / "outside")
    assert workspace.folder("a.py") is workspace.folder("a.py") is None
    outside = os.path.relpath(tmp_path / "outside", workspace.layout.memory)
    for name in (outside, "nothing here"):
        execute(file, f"INSERT INTO hint VALUES ('path', X'{b'a.py'.hex()}', X'{os.fsencode(name).hex()}')")
    assert find(workspace, "a.py") == (None, [])


def test_kills_while_it_is_made_and_written(workspace: Workspace) -> None:
    """SIGKILL at some moments of making and changing it: the next command finds everything."""
    names = {f"m{number}.py": f"memory-{number}" for number in range(15)}
    for path, name in names.items():
        (workspace.layout.memory / name).mkdir()
        workspace.repo.write(path, text(path))
        save_identity(workspace.layout.memory / name, Identity(path).seen(f"{len(name):040}", "/elsewhere"))
    code = (
        "import sys, os; from pathlib import Path; import repoagent.memory.identity.memory_index as i; i.FEW = 0\n"
        "from repoagent.memory.identity.store import remember_file; from repoagent.git.worktree import layout_of, open_worktree\n"
        "w = open_worktree(Path(sys.argv[1])); print('on', flush=True)\n"
        "while True:\n"
        "    for n in range(15):\n"
        "        p = f'm{n}.py'; remember_file(layout_of(w), w, p, (w.top / p).read_bytes(), commit=os.urandom(4).hex())\n"
        "        (w.top / '.repoagent/memory.db').unlink(missing_ok=True) if n == 7 else None\n"
    )
    for moment in (0.0, 0.05):
        kill_after(moment, code, str(workspace.worktree.top))
    found = dict(memory_paths(workspace.layout, warn=fail))
    assert {path: name for path, name in found.items() if path in names} == names
    with memory_index.open_index(workspace.layout, fail) as opened:
        assert all(name in opened.names(memory_index.PATH, path) for path, name in names.items())


def test_a_look_at_a_known_file_reads_no_other(workspace: Workspace) -> None:
    a = workspace.folder("a.py")
    for other in workspace.layout.memory.glob("b-py-*/identity.json"):
        other.unlink()
        other.mkdir()  # reading it would be refused
    assert find(workspace, "a.py") == (a, [])
