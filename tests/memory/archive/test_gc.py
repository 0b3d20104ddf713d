"""Only a memory that has lost its file everywhere is archived, complete, and comes back; never one in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.memory.archive import restore_memory
from repoagent.memory.editing import clear
from repoagent.memory.gc import GcCandidate, collect_garbage
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import read_memories
from repoagent.storage.locks import hold_lock
from tests.git.edits import shell
from tests.history.histories import partial_clone, without_a_fetch
from tests.memory.archive.conftest import content, fill, state
from tests.memory.conftest import Workspace, edited, fail, kill_after, text, workspace_at


def gone(workspace: Workspace, path: str = "a.py") -> Memory:
    """A memory whose file was deleted and is in no commit that anything leads to."""
    memory = workspace.remember(path)
    fill(memory, "one", "two")
    workspace.repo.git("rm", "-q", "-f", path)
    workspace.repo.commit("gone")
    return memory


def run(workspace: Workspace, *, apply: bool = True, days: int = -100) -> list[GcCandidate]:
    return collect_garbage(workspace.layout, workspace.worktree, days=days, apply=apply, warn=fail)[0]


def archived(workspace: Workspace) -> Path:
    """The folder that the only candidate is moved to now."""
    (candidate,) = run(workspace)
    assert candidate.verdict == "archived" and candidate.archive is not None
    return candidate.archive


def why(workspace: Workspace) -> str:
    (candidate,) = run(workspace)
    assert candidate.verdict == "kept"
    return candidate.why


def test_an_orphan_is_archived_and_restored_unchanged(workspace: Workspace) -> None:
    memory = gone(workspace)
    clear(memory, ["notes"])
    fill(memory, "three")
    (memory.folder / "notes.md.broken-1").write_bytes(b"\xff mangled")
    memory.notes.write_bytes(memory.notes.read_bytes() + b"\nmy own words, oddly written \xff\n")
    before = state(workspace)
    (preview,) = run(workspace, apply=False)
    assert preview.verdict == "orphan" and state(workspace) == before
    own = [data for path, data in before.items() if path.startswith(memory.folder.name)]
    assert preview.size == sum(map(len, own))
    place = archived(workspace)
    assert place.parent == workspace.layout.root / "archive" and not memory.folder.exists()
    assert [known.identity.path for known in read_memories(workspace.layout)] == ["b.py"]
    assert restore_memory(workspace.layout, place) == memory and not place.exists()
    assert state(workspace) == before
    memory.folder.rename(place)
    memory.folder.mkdir()
    with pytest.raises(Refused, match="already exists; rename"):
        restore_memory(workspace.layout, place)
    with pytest.raises(Refused, match="not an archived memory"):
        restore_memory(workspace.layout, memory.folder)


def test_a_recently_changed_memory_stays_and_a_returning_file_finds_an_archived_one(
    workspace: Workspace,
) -> None:
    memory = gone(workspace)
    assert [each.why for each in run(workspace, days=14)] == ["changed less than 14 days ago"]
    (candidate,) = run(workspace, days=0)
    assert candidate.archive is not None
    workspace.repo.write("a.py", edited(text("a")))
    restore_memory(workspace.layout, candidate.archive)
    assert workspace.folder("a.py") == memory.folder.name


def test_a_branch_or_a_remote_one_has_the_file(workspace: Workspace) -> None:
    git = workspace.repo.git
    git("branch", "side")
    gone(workspace)
    assert why(workspace) == "a branch contains the file a.py"
    shell(
        workspace.repo,
        "git checkout -q side; git mv a.py other.py; git commit -qm renamed; git checkout -q main",
    )
    assert why(workspace) == "a branch contains the same content in other.py"
    shell(
        workspace.repo,
        "git checkout -q -B side HEAD~1; echo other > a.py; git commit -qam x; git checkout -q main",
    )
    assert why(workspace) == "a branch contains the file a.py"
    git("update-ref", "refs/remotes/origin/side", "side")
    git("branch", "-D", "side")
    assert "a branch" in why(workspace)
    git("update-ref", "-d", "refs/remotes/origin/side")
    archived(workspace)


def test_a_linked_work_tree_has_it(workspace: Workspace, tmp_path: Path) -> None:
    gone(workspace)
    linked = tmp_path / "linked"
    workspace.repo.git("worktree", "add", "-q", "--detach", str(linked), "HEAD~1")
    (linked / "a.py").unlink()
    assert why(workspace) == "a branch contains the file a.py"  # the HEAD of the work tree
    (linked / "a.py").write_bytes(text("another"))
    workspace.repo.git("-C", str(linked), "checkout", "-q", "-f", "--detach", "main")
    (linked / "a.py").write_bytes(text("another"))
    assert why(workspace) == f"{linked} has a file a.py"
    (linked / "a.py").unlink()
    archived(workspace)


def test_locked_and_pending_memories_stay_and_unknown_files_move_along(workspace: Workspace) -> None:
    memory = gone(workspace)
    with hold_lock(memory.folder / "notes.md.lock", label="the notes"):
        assert "held by process" in why(workspace)
    (memory.folder / "mine.txt").write_text("a user's own")
    workspace.layout.pending.mkdir(parents=True, exist_ok=True)
    waiting = workspace.layout.pending / "x-edit.json"
    waiting.write_text(f'{{"version": 1, "memories": {{"a.py": "{memory.folder.name}"}}}}')
    assert why(workspace) == "an edit to its file has not been recorded yet"
    waiting.unlink()
    assert (archived(workspace) / "mine.txt").exists()


def test_a_clone_without_blobs(workspace: Workspace) -> None:
    git = workspace.repo.git
    git("switch", "-q", "-c", "side")
    workspace.repo.commit("more", **{"old.py": text("moved"), "changed.py": text("changed")})
    git("switch", "-q", "main")
    clone = workspace_at(partial_clone(workspace.repo, "blob:none").top)
    for path in ("moved.py", "changed.py", "dropped.py"):
        clone.repo.write(path, text(path.removesuffix(".py")) + b"mine\n" * (path == "changed.py"))
        clone.remember(path)
        (clone.repo.top / path).unlink()
    with without_a_fetch(clone.repo):
        judged = {each.memory.identity.path: each.why for each in run(clone)}
    assert judged == {
        "changed.py": "a branch contains the file changed.py",
        "dropped.py": "",
        "moved.py": "a branch contains the same content in old.py",
    }


_COLLECT = """
import sys
from pathlib import Path
from repoagent.memory.gc import collect_garbage
from repoagent.git.worktree import layout_of, open_worktree
worktree = open_worktree(Path(sys.argv[1]))
print("ready", flush=True)
collect_garbage(layout_of(worktree), worktree, days=-100, apply=True)
"""


@pytest.mark.soak
def test_a_kill_leaves_each_memory_in_place_or_archived(workspace: Workspace) -> None:
    paths = [f"f{number}.py" for number in range(25)]
    for path in paths:
        workspace.repo.write(path, text(path))
    workspace.repo.commit("more")
    for path in paths:
        fill(workspace.remember(path), "one")
    wanted = {path: content(workspace, path) for path in paths}
    workspace.repo.git("rm", "-q", *paths)
    workspace.repo.commit("gone")
    for turn in range(20):
        kill_after(0.1 + 0.03 * turn, _COLLECT, str(workspace.repo.top))
        for place in sorted((workspace.layout.root / "archive").glob("*")):
            restore_memory(workspace.layout, place)
        assert {path: content(workspace, path) for path in paths} == wanted
    assert len(run(workspace)) == 25
    assert len(list((workspace.layout.root / "archive").iterdir())) == 25
