"""`repoagent memory list`: memories and their states, in any width and for programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from repoagent.memory.identity.record import FILE
from repoagent.memory.identity.store import remember
from tests.cli.apply_patch import Ask
from tests.cli.memory.conftest import talked
from tests.conftest import GitRepo
from tests.memory.conftest import Workspace, text
from tests.program import run as run_program

ODD = os.fsdecode(b"odd\n\xff\x1b[31m.py")


def states(ask: Ask, *arguments: str) -> dict[str, tuple[str, str | None]]:
    listed = ask("list", "--json", *arguments).json["memories"]
    return {row["path"]: (row["state"], row["current_path"]) for row in listed}


def test_an_empty_memory(repo: GitRepo, in_process: Ask, tmp_path: Path) -> None:
    done = in_process("memory", "list")
    assert (done.code, done.out) == (1, "") and "nothing is remembered in this repository yet" in done.err
    assert not (repo.top / ".repoagent").exists()
    repo.git("init", "-q", "--bare", str(tmp_path / "bare.git"))
    for folder, message in (
        (tmp_path, "not in a git work tree"),
        (tmp_path / "bare.git", "is a bare repository"),
    ):
        done = in_process("memory", "list", cwd=folder)
        assert done.code == 2 and message in done.err


def test_states_are_listed_without_changes(ask: Ask, context: Workspace) -> None:
    top = context.worktree.top
    before = (context.known("src/a.py").folder / FILE).read_bytes()
    (top / "src/a.py").rename(top / "c.py")
    (top / "src/b.py").unlink()
    assert states(ask) == {"src/a.py": ("moved", "c.py"), "src/b.py": ("orphaned", None)}
    folder = next(context.layout.memory.glob("a-py-*"))
    assert (folder / FILE).read_bytes() == before
    assert states(ask, "--state", "orphaned").keys() == {"src/b.py"}
    assert states(ask, "--state", "live", "--state", "moved").keys() == {"src/a.py"}
    assert ask("list", "--state", "gone").code == 2
    context.repo.git("add", "-A")
    context.repo.git("commit", "-qm", "moved and edited")
    (top / "c.py").write_bytes((top / "c.py").read_bytes() + b"a line more\n")
    os.utime(context.layout.memory, (1, 1))
    assert states(ask)["src/a.py"] == ("moved", "c.py")
    assert context.folder("c.py") == folder.name
    assert states(ask)["c.py"] == ("live", None)


def test_a_path_that_another_file_has_now(ask: Ask, context: Workspace) -> None:
    """The new file is a stranger: a memory is not live just because a file exists at its path."""
    top = context.worktree.top
    (top / "src/a.py").rename(top / "moved.py")
    (top / "src/a.py").write_bytes(text("nothing alike"))
    context.remember("src/a.py")
    listed = ask("list", "--json").json["memories"]
    mine = [(row["state"], row["current_path"]) for row in listed if row["path"] == "src/a.py"]
    assert sorted(mine) == [("live", None), ("moved", "moved.py")]


def test_small_files_that_have_exchanged_their_names_are_moved(ask: Ask, context: Workspace) -> None:
    repo = context.repo
    for path in (
        "small.py",
        "little.py",
    ):  # git does not look for the rewrite of a file of less than 400 bytes
        repo.write(path, text(path, 9))
        remember(context.layout, context.worktree, path, repo.read(path), commit=repo.head())
    repo.git("add", "-A")
    for old, new in (("small.py", "a"), ("little.py", "small.py"), ("a", "little.py")):
        (repo.top / old).rename(repo.top / new)
    listed = states(ask)
    assert listed["small.py"] == ("moved", "little.py") and listed["little.py"] == ("moved", "small.py")


def test_odd_names_in_all_forms(ask: Ask, context: Workspace) -> None:
    context.repo.write(ODD, text("odd"))
    context.remember(ODD)
    done = run_program(["memory", "list", "-z"], context.worktree.top)
    assert done.stdout.split(b"\0") == [os.fsencode(ODD), b"src/a.py", b"src/b.py", b""]
    table = ask("list").out
    assert "odd^J<FF>^[[31m.py" in table and "\x1b" not in table and len(table.splitlines()) == 4
    assert ODD in states(ask)
    assert ask("list", "-z", "--json").code == 2


def test_order_limit_and_paths(ask: Ask, context: Workspace) -> None:
    talked(context.known("src/b.py"), 1)
    context.repo.write("z.py", text("z"))
    context.remember("z.py")
    os.utime(context.known("src/b.py").folder / "edits.jsonl", (4e9, 4e9))
    assert list(states(ask)) == ["src/a.py", "src/b.py", "z.py"]
    for order in ("edits", "used", "size"):
        assert list(states(ask, "--sort", order, "-n", "1")) == ["src/b.py"]
    assert list(states(ask, "-n", "0", ".")) == ["src/a.py", "src/b.py", "z.py"]
    done = ask("list", ".", "--json", cwd=context.worktree.top / "src")
    assert [row["path"] for row in done.json["memories"]] == ["src/a.py", "src/b.py"]
    done = ask("list", "nowhere", "--state", "orphaned")
    assert done.code == 1 and "no memories match" in done.err


def test_broken_and_foreign_folders_are_named(ask: Ask, context: Workspace) -> None:
    memory = context.layout.memory
    a, b = context.known("src/a.py").folder, context.known("src/b.py").folder
    (a / FILE).write_bytes(b"{ not json")
    (memory / "link-00000000").symlink_to("/etc")
    (memory / "file-00000001").write_text("no folder")
    (b / "notes.md").symlink_to("/etc/passwd")
    (b / "edits.jsonl").write_bytes(b'\xff{"id":\n[1]\n{"id":"x"}\n' + b"[" * 100_000)
    done = ask("list")
    assert done.code == 0 and [line.split()[-1] for line in done.out.splitlines()[1:]] == ["src/b.py"]
    assert "renamed it to identity.json.broken-1" in done.err
    (row,) = ask("list", "--json").json["memories"]
    assert (row["edits"], row["notes"]) == (1, 0)


def test_an_identity_with_an_invalid_path(ask: Ask, context: Workspace) -> None:
    """A NUL byte in the path of one memory made every command fail."""
    paths = ("../../etc/passwd", "/etc/passwd", ".git/config", "x\x1b[31m", "a\0b", "\ud800z")
    for number, path in enumerate(paths):
        value = {"version": 1, "path": path, "places": {"/etc": {"path": "passwd", "blob": ""}}}
        file = context.layout.memory / f"h-0000000{number}" / "identity.json"
        file.parent.mkdir()
        file.write_text(json.dumps(value))
    listed = states(ask)
    assert listed.keys() == {"src/a.py", "src/b.py", *paths[:4]}
    assert {listed[path][0] for path in paths if path in listed} == {"orphaned"}
    for number in range(len(paths)):
        done = ask("show", f"h-0000000{number}")
        assert done.code == (0 if number < 4 else 2) and "\x1b" not in done.out
    assert len(list(context.layout.memory.glob("*/identity.json.broken-1"))) == 2
