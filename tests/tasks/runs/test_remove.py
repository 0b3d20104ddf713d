"""A past run can be deleted, its words brought back; one that is alive is not touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.errors import Busy, NothingDone
from repoagent.git.worktree import layout as layout_of
from repoagent.git.worktree import open_worktree
from repoagent.llm.conversation import Turn, append
from repoagent.tasks.runs.control import bring_back, delete
from repoagent.tasks.runs.directory import RunDirectory, new_name
from repoagent.tasks.runs.list import find, runs
from repoagent.tasks.runs.live import Live, living
from repoagent.tasks.runs.record import About
from tests.conftest import GitRepo
from tests.tasks.runs.conftest import Worker

Start = Callable[..., Worker]


def ended(home: RunDirectory) -> None:
    live: Live
    with living(home, About("x")) as live:
        home.output.mkdir(mode=0o700)
        (home.output / "1.txt").write_text("much")
        live.ended("done", "")


@pytest.mark.soak
def test_one_that_is_alive_is_left_alone(start: Start) -> None:
    worker = start()
    with pytest.raises(Busy, match="stop task"):
        delete(find(worker.home.layout, "task"))
    assert worker.control() == [] and worker.home.record.exists()


def test_its_folder_goes_and_its_words_can_be_brought_back(repo: GitRepo) -> None:
    worktree = open_worktree(repo.top)
    layout = layout_of(worktree)
    home = RunDirectory(layout, new_name())
    ended(home)
    append(home.conversation, Turn("user", "precious"))
    words = home.conversation.read_bytes()
    (layout.runs / ".gone-abc").mkdir()
    (layout.runs / ".gone-abc" / "x").touch()  # a kill came in the middle of this one
    assert delete(find(layout, home.name))
    assert runs(layout) == [] and not list(layout.runs.iterdir()) and not home.conversation.exists()
    assert bring_back(layout, worktree, home.name) == home and home.conversation.read_bytes() == words
    assert find(layout, home.name).state == "conversation"
    with pytest.raises(NothingDone, match="is there"):
        bring_back(layout, worktree, home.name)
    assert delete(find(layout, home.name)) and runs(layout) == []


def test_a_conversation_that_a_person_named_stays(repo: GitRepo) -> None:
    home = RunDirectory(layout_of(open_worktree(repo.top)), "mine")
    ended(home)
    append(home.conversation, Turn("user", "mine"))
    assert not delete(find(home.layout, "mine"))
    assert home.conversation.exists() and not home.folder.exists()
