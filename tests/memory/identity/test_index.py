"""The hints: found without reading all, made again when lost, believed only as far as the identity files say so."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.memory.database import Schema, open_database
from repoagent.memory.identity import hints
from repoagent.memory.identity.record import Identity, identity_file, load, save
from repoagent.memory.identity.store import listing, memories, remember, resolve
from repoagent.storage.layout import Layout
from tests.memory.conftest import Desk, atomic_save, edited, text

SCHEMA = Schema(0x123, 1, "CREATE TABLE item (name)")


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few memories there are, their hints stand in the file."""
    monkeypatch.setattr(hints, "FEW", 0)


def file_of(desk: Desk) -> Path:
    return desk.layout.root / "memory.db"


def later(layout: Layout) -> None:
    """As if the memory folder had been changed long ago: its time is believed from now on."""
    os.utime(layout.memory, (1, 1))


def asked(desk: Desk, path: str) -> tuple[str | None, list[str]]:
    warnings: list[str] = []
    memory = resolve(desk.layout, desk.worktree, path, desk.repo.read(path), warn=warnings.append)
    return (None if memory is None else memory.folder.name), warnings


def test_few_memories_need_no_file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "FEW", 8)
    atomic_save(desk.worktree.top / "a.py", edited(text("a")))
    assert desk.folder("a.py") and file_of(desk).exists()  # it is there from before, and hears of everything
    file_of(desk).unlink()
    atomic_save(desk.worktree.top / "a.py", edited(text("a"), 12))
    assert desk.folder("a.py") and not file_of(desk).exists()
    code = "import sys; import repoagent.memory.identity.store; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.soak
@pytest.mark.parametrize("damage", ["lost", "broken", "cut", "foreign", "other tables", "link", "folder"])
def test_without_its_file_nothing_is_lost(desk: Desk, tmp_path: Path, damage: str) -> None:
    a, b = desk.folder("a.py"), desk.folder("b.py")
    file = file_of(desk)
    content = file.read_bytes()
    file.unlink()
    if damage == "link":
        file.symlink_to("/etc/hostname")
    elif damage == "folder":
        file.mkdir()
    elif damage == "other tables":
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE x (y)")
        connection.close()
    elif damage != "lost":
        file.write_bytes(
            {"broken": content[:5000] + b"\xff" * 9000, "cut": content[:3000], "foreign": b"hello " * 99}[
                damage
            ]
        )
    said: list[str] = []
    for _ in range(2):
        (found_a, more), (found_b, rest) = asked(desk, "a.py"), asked(desk, "b.py")
        said += more + rest
        assert (found_a, found_b) == (a, b)
    assert len(said) == (damage != "lost") and all("memory.db" in sentence for sentence in said), said
    assert (
        file.with_name("memory.db.broken-1").exists()
        or file.with_name("memory.db.broken-1").is_symlink()
        or damage == "lost"
    )
    assert asked(desk, "a.py") == (a, []) and file.is_file() and file.stat().st_mode & 0o77 == 0


def test_a_newer_file_is_left_alone_and_work_goes_on(desk: Desk) -> None:
    with sqlite3.connect(file_of(desk)) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before, a = file_of(desk).read_bytes(), desk.layout.memory
    atomic_save(desk.worktree.top / "a.py", edited(text("a")))
    name, said = asked(desk, "a.py")
    assert name and (a / name).is_dir()
    assert said and all("version 99" in sentence and "update repoagent" in sentence for sentence in said)
    (desk.worktree.top / "a.py").rename(desk.worktree.top / "c.py")
    assert asked(desk, "c.py")[0] == name
    assert file_of(desk).read_bytes() == before


def test_a_locked_or_read_only_index_only_costs_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_WAIT", 0.01)
    a = desk.folder("a.py")
    holder = sqlite3.connect(file_of(desk), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    name, said = asked(desk, "a.py")
    assert name == a and len(said) == 1 and "reading every memory" in said[0]
    holder.close()
    assert asked(desk, "a.py") == (a, [])


def test_damage_that_shows_late_is_reported_and_mended(desk: Desk) -> None:
    warnings: list[str] = []
    with (
        pytest.raises(Refused, match=r"memory\.db .* run the command again"),
        hints.open_index(desk.layout, warnings.append) as index,
    ):
        with sqlite3.connect(file_of(desk)) as other:
            other.execute("DROP TABLE hint")
        other.close()
        index.names(hints.PATH, "a.py")
    assert len(warnings) == 1 and "memory.db" in warnings[0]
    assert desk.folder("a.py")


@pytest.mark.parametrize("settled", [False, True])
def test_folders_copied_renamed_and_deleted_by_hand(desk: Desk, settled: bool) -> None:
    memory, a = desk.layout.memory, desk.folder("a.py")
    assert a is not None
    if settled:
        later(desk.layout)
        assert desk.folder("a.py") == a
    (memory / a).rename(memory / "by hand")
    assert desk.folder("a.py") == "by hand"
    shutil.copytree(memory / "by hand", memory / "copy")
    shutil.rmtree(memory / "by hand")
    assert desk.folder("a.py") == "copy"
    assert listing(desk.layout)[0] == ("a.py", "copy")
    shutil.rmtree(memory / "copy")
    assert desk.folder("a.py") is None
    assert [path for path, _ in listing(desk.layout)] == ["b.py"]


def test_a_folder_that_gets_its_identity_late(desk: Desk) -> None:
    """As a slow copy of a folder does: the memory folder does not change any more."""
    memory, a = desk.layout.memory, desk.folder("a.py")
    assert a is not None
    (memory / a).rename(desk.worktree.top / "elsewhere")
    (memory / "late").mkdir()
    later(desk.layout)
    assert desk.folder("a.py") is None
    shutil.copy(desk.worktree.top / "elsewhere" / "identity.json", memory / "late")
    assert desk.folder("a.py") == "late"


def test_an_identity_edited_by_hand(desk: Desk) -> None:
    a = desk.resolve("a.py")
    assert a is not None
    later(desk.layout)
    assert desk.folder("a.py")
    file = identity_file(a.folder)
    value = json.loads(file.read_bytes())
    value.update(path="found.py", places={}, keys={})
    file.write_text(json.dumps(value))
    atomic_save(desk.worktree.top / "found.py", text("a"))
    (desk.worktree.top / "a.py").unlink()
    assert [path for path, _ in listing(desk.layout)] == ["b.py", "found.py"]
    assert desk.folder("found.py") == a.folder.name


def test_names_that_lead_out_are_not_followed(desk: Desk, tmp_path: Path) -> None:
    a = desk.resolve("a.py")
    assert a is not None
    shutil.copytree(a.folder, tmp_path / "outside")
    shutil.rmtree(a.folder)
    assert desk.folder("a.py") is None
    later(desk.layout)
    assert desk.folder("a.py") is None
    with sqlite3.connect(file_of(desk)) as connection:
        forged = os.fsencode(os.path.relpath(tmp_path / "outside", desk.layout.memory))
        connection.execute("INSERT INTO hint VALUES ('path', ?, ?)", (b"a.py", forged))
        connection.execute("INSERT INTO hint VALUES ('path', ?, ?)", (b"a.py", b"nothing here"))
    connection.close()
    assert asked(desk, "a.py") == (None, [])


def test_a_kill_between_the_hints_and_the_identity(desk: Desk) -> None:
    """Whatever was written last, the file is found by what its identity says."""
    a = desk.resolve("a.py")
    assert a is not None
    (desk.worktree.top / "a.py").rename(desk.worktree.top / "c.py")
    moved = a.identity.at("c.py", str(desk.worktree.top))
    with hints.open_index(desk.layout, pytest.fail) as index:
        index.note([(a.folder.name, a.identity, moved)])
    later(desk.layout)
    assert load(a.folder) == a.identity and desk.folder("c.py") == a.folder.name
    save(a.folder, moved)
    assert desk.folder("c.py") == a.folder.name


def test_kills_while_it_is_made_and_written(desk: Desk) -> None:
    """SIGKILL at some moments of making and changing it: the next command finds everything."""
    names = {f"m{number}.py": f"memory-{number}" for number in range(15)}
    for path, name in names.items():
        (desk.layout.memory / name).mkdir()
        desk.repo.write(path, text(path))
        memory = Identity(path).seen(f"{len(name):040}", "/elsewhere")
        save(desk.layout.memory / name, memory)
    code = (
        "import sys, os; from pathlib import Path; import repoagent.memory.identity.hints as i; i.FEW = 0\n"
        "from repoagent.memory.identity.store import remember; from repoagent.git.worktree import layout, open_worktree\n"
        "w = open_worktree(Path(sys.argv[1])); print('on', flush=True)\n"
        "while True:\n"
        "    for n in range(15):\n"
        "        p = f'm{n}.py'; remember(layout(w), w, p, (w.top / p).read_bytes(), commit=os.urandom(4).hex())\n"
        "        (w.top / '.repoagent/memory.db').unlink(missing_ok=True) if n == 7 else None\n"
    )
    for moment in (0.0, 0.05):
        worker = subprocess.Popen(
            [sys.executable, "-c", code, str(desk.worktree.top)], stdout=subprocess.PIPE
        )
        assert worker.stdout is not None
        worker.stdout.readline()
        time.sleep(moment)
        os.kill(worker.pid, signal.SIGKILL)
        worker.communicate()
    found = dict(listing(desk.layout, warn=pytest.fail))
    assert {path: name for path, name in found.items() if path in names} == names
    with hints.open_index(desk.layout, pytest.fail) as index:
        assert all(name in index.names(hints.PATH, path) for path, name in names.items())


def test_several_at_once(desk: Desk) -> None:
    """Reading and making it at once, from a lost file on, gives everybody the right answer."""
    for number in range(20):
        desk.repo.write(f"m{number}.py", text(f"m{number}"))
        desk.remember(f"m{number}.py")
    right = {f"m{number}.py": desk.folder(f"m{number}.py") for number in range(20)}
    file_of(desk).unlink()
    wrong: list[str] = []

    def ask() -> None:
        for path, name in right.items():
            memory = resolve(desk.layout, desk.worktree, path, desk.repo.read(path), warn=wrong.append)
            if memory is None or memory.folder.name != name:
                wrong.append(path)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_look_at_a_known_file_reads_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    later(desk.layout)
    a = desk.folder("a.py")
    later(desk.layout)
    for other in desk.layout.memory.glob("b-py-*/identity.json"):
        other.unlink()
        other.mkdir()  # reading it would be refused
    assert asked(desk, "a.py") == (a, [])


def test_listing_matches_the_identity_files(desk: Desk) -> None:
    odd = os.fsdecode(b"odd\xff\n.py")
    desk.repo.write(odd, text("odd"))
    remember(desk.layout, desk.worktree, odd, text("odd"))
    assert listing(desk.layout) == [(each.identity.path, each.folder.name) for each in memories(desk.layout)]
    assert [path for path, _ in listing(desk.layout)] == ["a.py", "b.py", odd]


def test_threads_that_create_the_database_at_once_do_not_set_it_aside(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.db"
        barrier = threading.Barrier(4)
        messages: list[str] = []

        def create(
            path: Path = path, barrier: threading.Barrier = barrier, messages: list[str] = messages
        ) -> None:
            barrier.wait()
            open_database(path, SCHEMA, messages.append).close()
            messages.append("opened")

        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert messages == ["opened"] * 4
