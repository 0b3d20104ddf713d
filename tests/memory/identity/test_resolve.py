"""Finding the memory of a file: what a lookup records, what it costs, and cases that test_matrix.py cannot express."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from repoagent.memory.identity.store import memories, remember, resolve
from tests.conftest import GitRepo
from tests.memory.conftest import Desk, atomic_save, desk_at, edited, text


def reuse_inode(old: Path, new: Path, data: bytes) -> bool:
    """Delete `old` and get `new` onto its inode; False when the file system does not reuse inodes soon."""
    inode = old.stat().st_ino
    old.unlink()
    for number in range(200):
        filler = new.with_name(f"filler-{number}")
        filler.write_bytes(data)
        if filler.stat().st_ino == inode:
            filler.rename(new)
            return True
    return False


def test_a_reused_inode_inherits_nothing(desk: Desk) -> None:
    top = desk.worktree.top
    if not reuse_inode(top / "a.py", top / "new.py", text("new")):
        pytest.skip("this file system did not reuse a freed inode in 200 tries")
    assert desk.resolve("new.py") is None
    mine = desk.remember("new.py")
    assert mine.identity.path == "new.py" and mine.identity.earlier_paths == ()
    # and the first owner has lost the claim to the inode
    former = next(memory for memory in memories(desk.layout) if memory.identity.path == "a.py")
    assert not set(former.identity.keys) & set(mine.identity.keys)


def test_an_empty_file_on_a_reused_inode_is_a_new_file(desk: Desk) -> None:
    top = desk.worktree.top
    (top / "empty.py").write_bytes(b"")
    desk.remember("empty.py")
    if not reuse_inode(top / "empty.py", top / "other.py", b""):
        pytest.skip("this file system did not reuse a freed inode in 200 tries")
    assert desk.resolve("other.py") is None


def test_many_small_saves_add_up(desk: Desk) -> None:
    mine = desk.folder("a.py")
    lines = text("a").splitlines(keepends=True)
    for at in range(0, len(lines), 5):
        lines[at : at + 5] = [f"other {n}\n".encode() for n in range(at, at + 5)]
        atomic_save(desk.worktree.top / "a.py", b"".join(lines))
        assert desk.folder("a.py") == mine


def test_two_renames_in_a_row_pulled_at_once(desk: Desk) -> None:
    mine = desk.folder("a.py")
    for old, new in (("a.py", "m.py"), ("m.py", "z.py")):
        desk.repo.git("mv", old, new)
        atomic_save(desk.worktree.top / new, edited((desk.worktree.top / new).read_bytes(), 10))
        desk.repo.commit(f"to {new}")
    atomic_save(desk.worktree.top / "z.py", text("z"))
    assert desk.resolve("z.py") is None  # that git can't tell yet
    desk.repo.commit("rewritten")
    assert desk.folder("z.py") == mine


def test_a_rewrite_that_is_not_committed_is_not_linked_by_history(desk: Desk) -> None:
    later = desk.worktree.top / "later"
    later.write_bytes(text("quite another"))
    later.rename(desk.worktree.top / "a.py")
    assert desk.resolve("a.py") is None
    desk.repo.commit("the user says that it is the same file")
    assert desk.resolve("a.py") is not None


def test_rewritten_in_place(desk: Desk) -> None:
    mine = desk.folder("a.py")
    (desk.worktree.top / "a.py").write_bytes(text("all new"))
    memory = desk.resolve("a.py")
    assert memory is not None and memory.folder.name == mine and memory.reason == "rewritten in place"
    assert memory.identity.is_of_older_text("2020-01-01", "")
    again = desk.resolve("a.py")
    assert again is not None and again.reason == ""


def test_our_own_edit_may_change_everything(desk: Desk) -> None:
    before = desk.resolve("a.py")
    atomic_save(desk.worktree.top / "renamed.py", text("not a line is left"))
    (desk.worktree.top / "a.py").unlink()
    data = (desk.worktree.top / "renamed.py").read_bytes()
    after = remember(desk.layout, desk.worktree, "renamed.py", data, memory=before)
    assert before is not None and after.folder == before.folder and after.identity.path == "renamed.py"
    assert desk.folder("renamed.py") == before.folder.name


def test_history_is_not_read_for_a_file_older_than_the_missing_ones(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphans are normal; a first edit of any old file must not walk history because of them."""
    (desk.worktree.top / "a.py").unlink()
    log = tmp_path / "log"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(log))
    data = (desk.worktree.top / "src" / "app.py").read_bytes()
    assert resolve(desk.layout, desk.worktree, "src/app.py", data) is None
    asked = [event for event in map(json.loads, log.read_text().splitlines()) if event["event"] == "cmd_name"]
    assert [event["name"] for event in asked] == ["diff-index", "cat-file"]


def test_the_common_path_asks_no_git_and_writes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in desk.layout.memory.rglob("*"))
    monkeypatch.setenv("PATH", "/nonexistent")  # any call of git fails
    assert desk.folder("a.py") and desk.folder("b.py")
    (desk.worktree.top / "new.py").write_bytes(text("new"))
    assert desk.resolve("new.py") is None  # nothing is gone, so there is nothing to ask git
    assert sorted((path, path.stat().st_mtime_ns) for path in desk.layout.memory.rglob("*")) == before


def test_an_unwritable_memory_is_still_returned(desk: Desk) -> None:
    mine = desk.folder("a.py")
    (desk.layout.memory / ".lock").unlink()
    (desk.layout.memory / ".lock").mkdir()
    atomic_save(desk.worktree.top / "a.py", edited(text("a")))
    warnings: list[str] = []
    data = (desk.worktree.top / "a.py").read_bytes()
    memory = resolve(desk.layout, desk.worktree, "a.py", data, warn=warnings.append)
    assert memory is not None and memory.folder.name == mine
    assert len(warnings) == 1 and "could not update the memory" in warnings[0]


def test_without_commits_and_odd_names(tmp_path: Path) -> None:
    GitRepo(tmp_path).git("init", "-q", "--object-format=sha256")
    desk = desk_at(tmp_path)
    name = os.fsdecode(b"odd\xff \n.py")
    (tmp_path / name).write_bytes(text("odd"))
    mine = desk.remember(name).folder.name
    (tmp_path / name).rename(tmp_path / "even.py")
    atomic_save(tmp_path / "even.py", edited(text("odd"), 25))
    assert desk.resolve("even.py") is None  # neither inode, blob nor git knows
    atomic_save(tmp_path / "even.py", text("odd"))
    assert desk.folder("even.py") == mine
