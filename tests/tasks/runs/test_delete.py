"""Delete a run and restore its conversation; a live run is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.errors import Busy, NothingDone
from repoagent.git.worktree import layout as layout_of
from repoagent.git.worktree import open_worktree
from repoagent.llm.conversation import Turn, append
from repoagent.tasks.runs.control import delete, restore_conversation
from repoagent.tasks.runs.directory import RunDirectory, new_name
from repoagent.tasks.runs.list import find, runs
from repoagent.tasks.runs.live_run import LiveRun, live_run
from repoagent.tasks.runs.record import Record
from tests.conftest import GitRepo
from tests.tasks.runs.conftest import Worker

Start = Callable[..., Worker]


def ended(run_dir: RunDirectory) -> None:
    live: LiveRun
    with live_run(run_dir, Record("x")) as live:
        run_dir.output.mkdir(mode=0o700)
        (run_dir.output / "1.txt").write_text("much")
        live.ended("done", "")


@pytest.mark.soak
def test_a_live_run_is_not_deleted(start: Start) -> None:
    worker = start()
    with pytest.raises(Busy, match="stop task"):
        delete(find(worker.run_dir.layout, "task"))
    assert worker.control() == [] and worker.run_dir.record.exists()


def test_a_deleted_conversation_can_be_restored(repo: GitRepo) -> None:
    worktree = open_worktree(repo.top)
    layout = layout_of(worktree)
    run_dir = RunDirectory(layout, new_name())
    ended(run_dir)
    append(run_dir.conversation, Turn("user", "precious"))
    words = run_dir.conversation.read_bytes()
    (layout.runs / ".gone-abc").mkdir()
    (layout.runs / ".gone-abc" / "x").touch()  # left by a killed deletion
    assert delete(find(layout, run_dir.name))
    assert runs(layout) == [] and not list(layout.runs.iterdir()) and not run_dir.conversation.exists()
    assert (
        restore_conversation(layout, worktree, run_dir.name) == run_dir
        and run_dir.conversation.read_bytes() == words
    )
    assert find(layout, run_dir.name).state == "conversation"
    with pytest.raises(NothingDone, match="exists"):
        restore_conversation(layout, worktree, run_dir.name)
    assert delete(find(layout, run_dir.name)) and runs(layout) == []


def test_a_conversation_with_a_chosen_name_is_kept(repo: GitRepo) -> None:
    run_dir = RunDirectory(layout_of(open_worktree(repo.top)), "mine")
    ended(run_dir)
    append(run_dir.conversation, Turn("user", "mine"))
    assert not delete(find(run_dir.layout, "mine"))
    assert run_dir.conversation.exists() and not run_dir.folder.exists()
