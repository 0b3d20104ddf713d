"""Which file is which: random histories, mined in one go, backwards in pieces, and forwards in steps."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from repoagent.git.worktree import open_worktree
from repoagent.history.index import miner
from repoagent.history.index.index import open_index
from tests.history.index.histories import History, Operation, linear, make, run

_SETTINGS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def check(top: Path, history: History, ids: list[str]) -> None:
    """Each file that is there has the commits that changed it, newest first."""
    with open_index(open_worktree(top)) as index:
        view = index.view("main")
        found = {}
        for path in history.files:
            file = view.file(path.encode())
            assert file is not None, path
            commits = view.commits(file, 100)
            told = view.describe([commit.number for commit in commits])
            found[path] = [ids.index(told[commit.number][0].decode()) for commit in commits]
            assert view.paths([file]) == {file: path.encode()}
        assert found == {path: history.commits_of(file) for path, file in history.files.items()}


@_SETTINGS
@given(linear, st.lists(st.integers(0, 9), max_size=3))
@pytest.mark.soak
def test_a_file_has_its_commits_whichever_way_they_are_mined(
    clean_environment: Path, commits: list[list[Operation]], steps: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve() / "repo"
        history, ids = make(top, commits)
        with open_index(open_worktree(top)) as index:
            assert index.update("main").complete
        check(top, history, ids)
        run(top, "clean", "-fdxq")
        for step in sorted({min(step, len(ids) - 1) for step in steps}):
            with open_index(open_worktree(top)) as index:
                index.update(ids[step])
        with open_index(open_worktree(top)) as index:
            assert index.update("main").commits == len(ids)
        check(top, history, ids)


@_SETTINGS
@given(linear, st.integers(0, 9))
@pytest.mark.soak
def test_mining_that_is_ended_again_and_again_gives_the_same(
    clean_environment: Path, commits: list[list[Operation]], start: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(miner, "_LOOK", 1)
        top = Path(folder).resolve() / "repo"
        history, ids = make(top, commits)
        with open_index(open_worktree(top)) as index:
            index.update(ids[min(start, len(ids) - 1)], seconds=0)
        for _ in range(2 * len(ids) + 1):
            with open_index(open_worktree(top)) as index:
                if index.update("main", seconds=0).complete:
                    break
        else:
            raise AssertionError("it does not come to its end")
        check(top, history, ids)
