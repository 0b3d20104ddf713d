"""What a lookup records and costs, cases that test_matrix.py cannot express, relinking, and how alike two texts are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.memory.identity.record import FILE, Memory
from repoagent.memory.identity.renames import similarity
from repoagent.memory.identity.store import read_memories, relink_memory, remember_file
from tests.conftest import GitRepo
from tests.history.histories import partial_clone, without_a_fetch
from tests.memory.conftest import Workspace, atomic_save, edited, text, workspace_at


def reuse_inode(old: Path, new: Path, data: bytes) -> None:
    """Delete `old` and create `new` on its inode. Skips the test if the file system does not reuse inodes soon."""
    inode = old.stat().st_ino
    old.unlink()
    for number in range(200):
        filler = new.with_name(f"filler-{number}")
        filler.write_bytes(data)
        if filler.stat().st_ino == inode:
            filler.rename(new)
            return
    pytest.skip("this file system did not reuse a freed inode in 200 tries")


def test_a_reused_inode_inherits_nothing(workspace: Workspace) -> None:
    top = workspace.worktree.top
    reuse_inode(top / "a.py", top / "new.py", text("new"))
    assert workspace.resolve("new.py") is None
    mine = workspace.remember("new.py").identity
    assert mine.path == "new.py" and mine.earlier_paths == ()
    # and the first owner has lost the claim to the inode
    (former,) = (memory for memory in read_memories(workspace.layout) if memory.identity.path == "a.py")
    assert not set(former.identity.keys) & set(mine.keys)
    # nor is an empty file known by its inode
    (top / "empty.py").write_bytes(b"")
    workspace.remember("empty.py")
    reuse_inode(top / "empty.py", top / "other.py", b"")
    assert workspace.resolve("other.py") is None


def test_many_small_saves_add_up(workspace: Workspace) -> None:
    mine = workspace.folder("a.py")
    lines = text("a").splitlines(keepends=True)
    for at in range(0, len(lines), 5):
        lines[at : at + 5] = [f"other {n}\n".encode() for n in range(at, at + 5)]
        atomic_save(workspace.worktree.top / "a.py", b"".join(lines))
        assert workspace.folder("a.py") == mine


def test_our_own_edit_may_change_everything(workspace: Workspace) -> None:
    before = workspace.known("a.py")
    atomic_save(workspace.worktree.top / "renamed.py", text("not a line is left"))
    (workspace.worktree.top / "a.py").unlink()
    data = workspace.repo.read("renamed.py")
    after = remember_file(workspace.layout, workspace.worktree, "renamed.py", data, memory=before)
    assert after.folder == before.folder and after.identity.path == "renamed.py"
    assert workspace.folder("renamed.py") == before.folder.name


def test_history_is_not_read_for_a_file_older_than_the_missing_ones(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphans are normal; a first edit of any old file must not walk history because of them."""
    (workspace.worktree.top / "a.py").unlink()
    log = tmp_path / "log"
    monkeypatch.setenv("GIT_TRACE2_EVENT", str(log))
    assert workspace.resolve("src/app.py") is None
    events = [json.loads(line) for line in log.read_text().splitlines()]
    commands = [event["name"] for event in events if event["event"] == "cmd_name"]
    assert commands == ["diff-index", "rev-parse"]


def test_the_common_path_asks_no_git_and_writes_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in workspace.layout.memory.rglob("*"))
    monkeypatch.setenv("PATH", "/nonexistent")  # any call of git fails
    assert workspace.folder("a.py") and workspace.folder("b.py")
    (workspace.worktree.top / "new.py").write_bytes(text("new"))
    assert workspace.resolve("new.py") is None  # nothing is gone, so there is nothing to ask git
    assert sorted((path, path.stat().st_mtime_ns) for path in workspace.layout.memory.rglob("*")) == before


def test_an_unwritable_memory_is_still_returned(workspace: Workspace) -> None:
    mine = workspace.folder("a.py")
    (workspace.layout.memory / ".lock").unlink()
    (workspace.layout.memory / ".lock").mkdir()
    atomic_save(workspace.worktree.top / "a.py", edited(text("a")))
    warnings: list[str] = []
    memory = workspace.resolve("a.py", warnings.append)
    assert memory is not None and memory.folder.name == mine
    assert len(warnings) == 1 and "could not update the memory" in warnings[0]


def test_without_commits_and_odd_names(tmp_path: Path) -> None:
    GitRepo(tmp_path).git("init", "-q", "--object-format=sha256")
    workspace = workspace_at(tmp_path)
    name = os.fsdecode(b"odd\xff \n.py")
    (tmp_path / name).write_bytes(text("odd"))
    mine = workspace.remember(name).folder.name
    (tmp_path / "one").write_bytes(edited(text("odd"), 25))
    (tmp_path / "two").write_bytes(text("odd"))  # both before an inode is free again
    (tmp_path / name).unlink()
    (tmp_path / "one").rename(tmp_path / "even.py")
    assert workspace.resolve("even.py") is None  # neither inode, blob nor git knows
    (tmp_path / "two").rename(tmp_path / "even.py")
    assert workspace.folder("even.py") == mine


def test_a_memory_that_lost_its_file_is_linked_to_it_again(workspace: Workspace) -> None:
    mine = workspace.known("a.py")
    (workspace.worktree.top / "a.py").unlink()
    workspace.repo.write("deep/z.py", text("nothing is as it was"))
    assert workspace.resolve("deep/z.py") is None
    memory = relink_memory(workspace.layout, workspace.worktree, mine, "deep/z.py")
    assert memory.reason == "linked by hand to another text, formerly a.py"
    assert memory.identity.rekeyings[-1].reason == memory.reason
    assert workspace.folder("deep/z.py") == mine.folder.name
    atomic_save(workspace.worktree.top / "deep/z.py", edited(text("nothing is as it was")))
    assert workspace.folder("deep/z.py") == mine.folder.name
    workspace.repo.git("checkout", "--", "a.py")
    assert workspace.folder("a.py") != workspace.folder("deep/z.py")


def test_a_rekeying_is_undone(workspace: Workspace) -> None:
    mine = workspace.known("a.py")
    (workspace.worktree.top / "a.py").rename(workspace.worktree.top / "c.py")
    moved = workspace.known("c.py")
    assert moved.folder == mine.folder
    back = relink_memory(
        workspace.layout, workspace.worktree, moved, "a.py"
    ).identity  # no file, but its path
    assert (back.path, back.rekeyings[-1].reason) == ("a.py", "linked by hand, formerly c.py")
    assert workspace.resolve("c.py") is None
    workspace.repo.git("checkout", "--", "a.py")
    assert workspace.folder("a.py") == mine.folder.name
    assert workspace.resolve("c.py") is None


def test_invalid_links_are_refused_and_change_nothing(workspace: Workspace) -> None:
    a, b = workspace.known("a.py"), workspace.known("b.py")
    before = {memory.folder: (memory.folder / FILE).read_bytes() for memory in (a, b)}
    (workspace.worktree.top / "link.py").symlink_to("a.py")
    for memory, path, why in (
        (a, "b.py", rf"b\.py already has a memory \({b.folder.name}\); link that memory"),
        (a, "nowhere.py", "no such file: nowhere.py"),
        (a, "link.py", "link"),
        (a, "../x", "work tree|\\.\\."),
        (a, "src", "folder"),
        (Memory(workspace.layout.memory / "gone", a.identity), "a.py", "cannot read memory"),
    ):
        with pytest.raises(Refused, match=why):
            relink_memory(workspace.layout, workspace.worktree, memory, path)
    known = read_memories(workspace.layout)
    assert {memory.folder: (memory.folder / FILE).read_bytes() for memory in known} == before


def test_a_clone_without_blobs(workspace: Workspace) -> None:
    repo, (a, b) = workspace.repo, (workspace.folder(path) for path in ("a.py", "b.py"))
    repo.git("add", "-f", ".repoagent/memory")
    repo.commit("another text", **{"a.py": text("quite another")})
    repo.git("mv", "b.py", "moved.py")
    repo.git("rm", "-q", "src/app.py")  # git compares it with c.py
    repo.commit("a third one", **{"a.py": text("a third one"), "c.py": edited(text("a third one"))})
    clone = workspace_at(partial_clone(repo, "blob:none").top)
    with without_a_fetch(clone.repo):
        assert [clone.folder(path) for path in ("a.py", "moved.py", "c.py")] == [a, b, None]


_LINES = st.sampled_from([b"one\n", b"two\r\n", b"three" * 30 + b"\n", b"\n", b"\0\xff", b"four\n"])
_FILES = st.lists(_LINES).map(b"".join)


@given(_FILES, _FILES)
def test_similarity_is_a_share_and_even_handed(one: bytes, other: bytes) -> None:
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, other) == similarity(other, one)
    assert similarity(one, one) == 1.0
    assert similarity(one.replace(b"\r\n", b"\n"), one) == 1.0


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_similarity_matches_git(repo: GitRepo, line_end: bytes) -> None:
    lines = text("file", 100).splitlines()
    data = line_end.join(lines)
    repo.commit("old", old=data)
    repo.git("rm", "-q", "old")
    scores = []
    for changed in (0, 5, 20, 40, 48, 60, 80, 100):
        fresh = [f"changed {n * n} in line {n}.".encode() for n in range(changed)]
        other = line_end.join(fresh + lines[changed:])
        repo.write("new", other)
        repo.git("add", "new")
        status = repo.git("diff", "--cached", "-M1%", "--name-status").split()[0]
        score = int(status[1:]) / 100 if status.startswith("R") else 0.0
        mine = similarity(data, other)
        assert mine == pytest.approx(score, abs=0.05) or (mine < 0.5 and score < 0.5)
        scores.append(mine)
    assert scores[0] == 1.0 and scores[4] >= 0.5 > scores[5] and scores == sorted(scores, reverse=True)
