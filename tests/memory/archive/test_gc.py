"""Garbage: memories without a file are archived, old conversations and runs removed; nothing in use is."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from unittest.mock import Mock

import pytest

from repoagent.errors import Refused
from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory import gc, listing
from repoagent.memory.archive import restore_memory
from repoagent.memory.compaction import compact
from repoagent.memory.edit_records import append_edit, read_edits
from repoagent.memory.editing import clear
from repoagent.memory.gc import (
    ForgottenCounts,
    GcCandidate,
    collect_garbage,
    forget_conversations,
    forget_daily,
)
from repoagent.memory.identity.record import Memory
from repoagent.memory.identity.store import read_memories
from repoagent.memory.listing import MemoryLocation, memory_rows
from repoagent.memory.notes import read_notes
from repoagent.storage.atomic import write_whole
from repoagent.storage.locks import hold_lock
from tests.git.edits import shell
from tests.history.histories import partial_clone, without_a_fetch
from tests.memory.archive.conftest import content, edit_of, fill, state, turns
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


def test_a_recently_changed_memory_stays_and_an_archived_one_is_found_again(workspace: Workspace) -> None:
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
    renamed = "git checkout -q side; git mv a.py other.py; git commit -qm renamed; git checkout -q main"
    shell(workspace.repo, renamed)
    assert why(workspace) == "a branch contains the same content in other.py"
    other = "git checkout -q -B side HEAD~1; echo other > a.py; git commit -qam x; git checkout -q main"
    shell(workspace.repo, other)
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


def test_a_file_that_may_be_among_many_new_ones(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = workspace.repo
    repo.write("src/a.py", text("draft"))
    workspace.remember("src/a.py")
    for number in range(60):
        repo.write(f"n/{number}.py", text(f"number {number}"))
    repo.write("zz/z.py", b"")
    (repo.top / "src/a.py").rename(repo.top / "zz/z.py")
    (row,) = memory_rows(workspace.layout, workspace.worktree, fail, paths=["src/a.py"])
    assert row.location == MemoryLocation("moved", "src/a.py", "zz/z.py")
    assert run(workspace) == []

    (repo.top / "zz/z.py").rename(repo.top / "z")  # a copy has another inode
    repo.write("zz/z.py", (repo.top / "z").read_bytes())
    (repo.top / "z").unlink()
    assert why(workspace) == "the search for its file skipped 61 new files"
    for path in repo.top.glob("n/*"):
        path.unlink()
    assert run(workspace) == []

    monkeypatch.setattr(listing, "MANY", 3)
    assert why(workspace) == "the search for its file skipped 1 new file"
    (repo.top / "zz/z.py").unlink()
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


NOW = time.time()


def forget(workspace: Workspace, days: int, *, apply: bool = True) -> ForgottenCounts:
    return forget_conversations(workspace.layout, days, apply=apply, warn=fail)


def ago(days: int) -> str:
    return (datetime.fromtimestamp(NOW, timezone.utc) - timedelta(days=days)).isoformat(timespec="seconds")


def age(days: float, *paths: Path) -> None:
    for path in sorted(paths, reverse=True):  # a folder after its files
        os.utime(path, (NOW - days * 86_400,) * 2)


def spoken(workspace: Workspace, *days: int) -> Memory:
    memory = workspace.remember("a.py")
    for number in days:
        append_turns(memory.conversation, *turns(f"of-{number}", f"secret words {number}", ago(number)))
    return memory


def everything(folder: Path) -> str:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".z"]
    return "".join(path.read_text() for path in files)


def test_old_exchanges_are_removed_and_leave_a_line(workspace: Workspace) -> None:
    memory = spoken(workspace, 50, 40, 3)
    append_edit(memory.edits, edit_of("of-50", time=ago(50)))
    before = everything(workspace.layout.root)
    assert forget(workspace, 30, apply=False).exchanges == 2 and everything(workspace.layout.root) == before
    assert forget(workspace, 30).exchanges == 2
    after = everything(workspace.layout.root)
    assert "secret words 3" in after and "secret words 4" not in after and "secret words 50" not in after
    texts = [note.text for note in read_notes(memory.notes)]
    assert [text.split(" (")[0] for text in texts] == ["please of-50", "please of-40"]
    assert [edit.id for edit in read_edits(memory.edits)] == ["of-50"]
    assert not forget(workspace, 30) and everything(workspace.layout.root) == after
    forget(workspace, 0)  # all of it may be too old
    assert "secret" not in everything(workspace.layout.root)
    append_turns(memory.conversation, *turns("new", "a new reply"))
    assert "a new reply" in memory.conversation.read_text()


def test_an_archived_conversation_is_removed_when_all_of_it_is_old(workspace: Workspace) -> None:
    memory = spoken(workspace, 60, 50, 40, 2, 1)
    assert compact(memory) is not None
    # copies for undo go with their own age
    age(104, *(workspace.layout.conversations / ".past").rglob("*.md"))
    forget(workspace, 45)
    assert "secret words 60" in everything(memory.folder)  # one of the same part is too young
    forget(workspace, 30)
    text = everything(workspace.layout.root)
    assert "secret words 60" not in text and "secret words 40" not in text and "secret words 2" in text


def test_undated_and_broken_exchanges_stay(workspace: Workspace) -> None:
    memory = workspace.remember("a.py")
    append_turns(memory.conversation, *turns("x", "words without a day", ""))
    forget(workspace, 0)
    assert "words without a day" in memory.conversation.read_text()
    memory.conversation.write_text("mangled")
    warnings: list[str] = []
    forget_conversations(workspace.layout, 0, warn=warnings.append)
    assert memory.conversation.read_text() == "mangled" and len(warnings) == 1


def test_unfinished_edits_go_unless_they_are_at_work(workspace: Workspace) -> None:
    folder = workspace.layout.conversations
    for name in ("edit-1", "edit-2", "kept-3", "named"):
        append_turns(folder / f"{name}.md", *turns(name))
        age(90, folder / f"{name}.md")
    append_turns(folder / "edit-4.md", *turns("young"))
    with hold_lock(workspace.layout.locks / "edit-2", label="the edit 2"):
        assert forget(workspace, 30).unfinished == 2
    assert sorted(path.name for path in folder.glob("*.md")) == ["edit-2.md", "edit-4.md", "named.md"]


def test_what_cannot_be_removed_is_reported_once(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.layout.conversations
    run_of(workspace, "run-old", 40)
    for name in ("edit-1", "edit-2"):
        append_turns(folder / f"{name}.md", *turns(name))
        age(90, folder / f"{name}.md")
    warnings: list[str] = []
    with monkeypatch.context() as patch, hold_lock(workspace.layout.locks / "edit-2", label="the edit 2"):
        patch.setattr(gc.shutil, "rmtree", lambda path, **_: None)  # as in folders without write permission
        patch.setattr(Path, "unlink", Mock(side_effect=PermissionError))
        assert not forget_conversations(workspace.layout, 30, warn=warnings.append)
    (warning,) = warnings
    assert f"could not remove {folder / 'edit-1.md'}, " in warning and "more; check" in warning
    assert "edit-2" not in warning and forget(workspace, 30).unfinished == 2


def test_what_another_process_removes(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workspace.layout.conversations / "edit-1.md"
    append_turns(path, *turns("edit-1"))
    age(90, path)
    is_old = gc._is_old

    def removed(paths: list[Path], cutoff: float) -> bool:
        path.unlink(missing_ok=True)
        return is_old(paths, cutoff)

    monkeypatch.setattr(gc, "_is_old", removed)
    assert not forget(workspace, 30)


def test_it_runs_once_a_day(workspace: Workspace) -> None:
    memory = spoken(workspace, 50)
    forget_daily(workspace.layout, 60)
    forget_daily(workspace.layout, 30)
    assert "secret words 50" in memory.conversation.read_text()
    age(1.01, workspace.layout.private / "conversations-looked-through")
    forget_daily(workspace.layout, 30)
    assert "secret words 50" not in memory.conversation.read_text()


def run_of(workspace: Workspace, name: str, days: float) -> Path:
    """What a run has left that ended so many days ago."""
    home = workspace.layout.runs / name
    for folder in ("output", "inbox", "changes"):
        (home / folder).mkdir(parents=True)
    for path in ("output/1.txt", "plan.md", "run.json", "lock", "changes/1"):
        (home / path).write_text("words")
    append_turns(workspace.layout.conversations / f"{name}.md", Turn("user", "words"))
    age(days, home, *home.iterdir(), *workspace.layout.conversations.glob(f"{name}.md*"))
    return home


def test_the_text_of_old_runs_is_removed(workspace: Workspace) -> None:
    old, new = run_of(workspace, "run-old", 40), run_of(workspace, "run-new", 3)
    mine = run_of(workspace, "mine", 40)
    conversations = workspace.layout.conversations
    append_turns(conversations / "chat-alone.md", Turn("user", "words"))
    age(40, *conversations.glob("chat-alone.md*"))
    gone = workspace.layout.runs / ".gone-1"
    gone.mkdir()
    (gone / "x").write_text("half")
    preview = forget(workspace, 30, apply=False)
    assert preview.runs == 4 and preview.bytes > 0 and gone.exists() and (old / "output/1.txt").exists()
    assert forget(workspace, 30) == preview
    records = {"run.json", "lock", "changes"}
    assert {path.name for path in old.iterdir()} == {path.name for path in mine.iterdir()} == records
    assert {path.name for path in conversations.glob("*.md")} == {"run-new.md", "mine.md"}
    assert (new / "output/1.txt").exists() and not gone.exists()
    assert not forget(workspace, 30)


def test_a_run_at_work_or_changed_since_keeps_all(workspace: Workspace) -> None:
    home = run_of(workspace, "run-old", 40)
    with hold_lock(home / "lock", label="the run"):
        age(40, home, *home.iterdir())
        assert forget(workspace, 30, apply=False).runs == forget(workspace, 30).runs == 0
    assert (home / "output/1.txt").exists()
    write_whole(home / "run.json", b"it has ended just now")
    assert forget(workspace, 30).runs == 0
    age(40, home)
    (home / "plan.md").write_text("changed by hand just now")
    assert forget(workspace, 30).runs == 0


def test_links_in_a_run_are_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("words")
    age(40, outside, outside / "precious")
    home = run_of(workspace, "run-old", 40)
    (home / "inbox").rmdir()
    (home / "inbox").symlink_to(outside)
    (workspace.layout.runs / "link").symlink_to(outside)
    os.utime(home / "inbox", (0, 0), follow_symlinks=False)
    age(40, home)
    assert forget(workspace, 30).runs == 1
    assert (outside / "precious").exists() and not (home / "inbox").is_symlink()
