"""Only a memory that has lost its file everywhere is archived, complete, and comes back; never one in use."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.memory.archive import restore
from repoagent.memory.editing import clear
from repoagent.memory.gc import GcCandidate, collect
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import memories
from repoagent.storage.locks import locked
from tests.memory.archive.conftest import content, fill, state
from tests.memory.conftest import Desk, edited, fail, kill_after, text

LATER = time.time() + 100 * 86_400


def gone(desk: Desk, path: str = "a.py") -> Memory:
    """A memory whose file was deleted and is in no commit that anything leads to."""
    memory = desk.remember(path)
    fill(memory, "one", "two")
    desk.repo.git("rm", "-q", "-f", path)
    desk.repo.commit("gone")
    return memory


def run(desk: Desk, *, apply: bool = True, days: int = 14, now: float = LATER) -> list[GcCandidate]:
    return collect(desk.layout, desk.worktree, days=days, apply=apply, now=now, warn=fail)[0]


def archived(desk: Desk) -> Path:
    """The folder that the only candidate is moved to now."""
    (candidate,) = run(desk)
    assert candidate.verdict == "archived" and candidate.archive is not None
    return candidate.archive


def why(desk: Desk) -> str:
    (candidate,) = run(desk)
    assert candidate.verdict == "kept"
    return candidate.why


def test_an_orphan_is_archived_and_restored_unchanged(desk: Desk) -> None:
    memory = gone(desk)
    clear(memory, ["notes"])
    fill(memory, "three")
    (memory.folder / "notes.md.broken-1").write_bytes(b"\xff mangled")
    memory.notes.write_bytes(memory.notes.read_bytes() + b"\nmy own words, oddly written \xff\n")
    before = state(desk)
    (preview,) = run(desk, apply=False)
    assert preview.verdict == "orphan" and state(desk) == before
    own = [data for path, data in before.items() if path.startswith(memory.folder.name)]
    assert preview.size == sum(map(len, own))
    place = archived(desk)
    assert place.parent == desk.layout.root / "archive" and not memory.folder.exists()
    assert [known.identity.path for known in memories(desk.layout)] == ["b.py"]
    assert restore(desk.layout, place) == memory and not place.exists()
    assert state(desk) == before
    memory.folder.rename(place)
    memory.folder.mkdir()
    with pytest.raises(Refused, match="already exists; rename"):
        restore(desk.layout, place)
    with pytest.raises(Refused, match="not an archived memory"):
        restore(desk.layout, memory.folder)


def test_a_recently_changed_memory_stays_and_a_file_that_returns_finds_an_archived_one(desk: Desk) -> None:
    memory = gone(desk)
    assert [each.why for each in run(desk, now=time.time())] == ["changed less than 14 days ago"]
    (candidate,) = run(desk, now=time.time() + 1, days=0)
    assert candidate.verdict == "archived" and candidate.archive is not None
    desk.repo.write("a.py", edited(text("a")))
    restore(desk.layout, candidate.archive)
    assert desk.folder("a.py") == memory.folder.name


def test_a_branch_a_remote_one_or_a_stash_has_the_file(desk: Desk) -> None:
    git = desk.repo.git
    git("branch", "side")
    gone(desk)
    assert why(desk) == "a branch contains the file a.py"
    git("checkout", "-q", "side")
    git("mv", "a.py", "other.py")
    desk.repo.commit("renamed")
    git("checkout", "-q", "main")
    assert why(desk) == "a branch contains the same content in other.py"
    git("branch", "-f", "side", "HEAD~1")
    git("checkout", "-q", "side")
    desk.repo.write("a.py", text("quite another"))
    desk.repo.commit("changed")
    git("checkout", "-q", "main")
    assert why(desk) == "a branch contains the file a.py"
    git("update-ref", "refs/remotes/origin/side", "side")
    git("branch", "-D", "side")
    assert "a branch" in why(desk)
    git("update-ref", "-d", "refs/remotes/origin/side")
    desk.repo.write("a.py", text("a") + b"more\n")
    git("stash", "-q", "-u")
    assert "a branch" in why(desk)
    git("stash", "drop", "-q")
    archived(desk)


def test_a_linked_work_tree_has_it(desk: Desk, tmp_path: Path) -> None:
    gone(desk)
    linked = tmp_path / "linked"
    desk.repo.git("worktree", "add", "-q", "--detach", str(linked), "HEAD~1")
    (linked / "a.py").unlink()
    assert why(desk) == "a branch contains the file a.py"  # the HEAD of the work tree
    (linked / "a.py").write_bytes(text("another"))
    desk.repo.git("-C", str(linked), "checkout", "-q", "-f", "--detach", "main")
    (linked / "a.py").write_bytes(text("another"))
    assert why(desk) == f"{linked} has a file a.py"
    (linked / "a.py").unlink()
    archived(desk)


def test_a_file_that_was_moved_and_is_not_added_yet(desk: Desk) -> None:
    memory = gone(desk)
    desk.repo.write("elsewhere.py", edited(text("a")))
    assert [each.verdict for each in run(desk)] in ([], ["kept"]) and memory.folder.exists()


def test_locked_and_pending_memories_stay_and_unknown_files_move_along(desk: Desk) -> None:
    memory = gone(desk)
    with locked(memory.folder / "notes.md.lock", what="the notes"):
        assert "held by process" in why(desk)
    (memory.folder / "mine.txt").write_text("a user's own")
    desk.layout.pending.mkdir(parents=True, exist_ok=True)
    waiting = desk.layout.pending / "x-edit.json"
    waiting.write_text(f'{{"version": 1, "memories": {{"a.py": "{memory.folder.name}"}}}}')
    assert why(desk) == "an edit to its file has not been recorded yet"
    waiting.unlink()
    assert (archived(desk) / "mine.txt").exists()


_COLLECT = """
import sys, time
from pathlib import Path
from repoagent.memory.gc import collect
from repoagent.git.worktree import layout, open_worktree
worktree = open_worktree(Path(sys.argv[1]))
print("ready", flush=True)
collect(layout(worktree), worktree, apply=True, now=time.time() + 10**7)
"""


@pytest.mark.soak
def test_a_kill_leaves_each_memory_in_place_or_archived(desk: Desk) -> None:
    paths = [f"f{number}.py" for number in range(25)]
    for path in paths:
        desk.repo.write(path, text(path))
    desk.repo.commit("more")
    for path in paths:
        fill(desk.remember(path), "one")
    wanted = {path: content(desk, path) for path in paths}
    desk.repo.git("rm", "-q", *paths)
    desk.repo.commit("gone")
    for turn in range(20):
        kill_after(0.1 + 0.03 * turn, _COLLECT, str(desk.repo.top))
        for place in sorted((desk.layout.root / "archive").glob("*")):
            restore(desk.layout, place)
        assert {path: content(desk, path) for path in paths} == wanted
    assert len(run(desk)) == 25
    assert len(list((desk.layout.root / "archive").iterdir())) == 25
