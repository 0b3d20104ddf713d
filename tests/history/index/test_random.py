"""Random histories: which file is which, mined in one go, backwards in pieces and forwards in steps, on one branch
and on several."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from repoagent.git.worktree import open_worktree
from repoagent.history.index import miner
from repoagent.history.index.index import IndexState, open_index
from repoagent.history.index.reader import IndexView
from tests.history.index.histories import Operation, branching, linear, make, make_branching, run

_SETTINGS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def check(top: Path, files: dict[str, list[int]], ids: list[str]) -> None:
    """Each file that is there has the commits that changed it, newest first."""
    with open_index(open_worktree(top)) as index:
        view = index.view("main")
        found = {}
        for path in files:
            file = view.file(path.encode())
            assert file is not None, path
            numbers = [commit.number for commit in view.commits(file, 100)]
            told = view.ids(numbers)
            found[path] = [ids.index(told[number]) for number in numbers]
            assert view.paths([file]) == {file: path.encode()}
        assert found == files


@_SETTINGS
@given(linear, st.lists(st.integers(0, 9), max_size=3), st.integers(0, 9))
@pytest.mark.soak
def test_a_file_has_its_commits_whichever_way_they_are_mined(
    clean_environment: Path, commits: list[list[Operation]], steps: list[int], start: int
) -> None:
    """At once, in steps, or ended again and again."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        top = Path(folder).resolve() / "repo"
        files, ids = make(top, commits)

        def mined(revision: str, seconds: float | None = None) -> IndexState:
            with open_index(open_worktree(top)) as index:
                return index.update(revision, seconds=seconds)

        assert mined("main").complete
        check(top, files, ids)
        run(top, "clean", "-fdxq")
        for step in sorted({min(step, len(ids) - 1) for step in steps}):
            mined(ids[step])
        assert mined("main").commits == len(ids)
        check(top, files, ids)
        run(top, "clean", "-fdxq")
        patch.setattr(miner, "_LOOK", 1)
        mined(ids[min(start, len(ids) - 1)], seconds=0)
        assert any(mined("main", seconds=0).complete for _ in range(2 * len(ids) + 1))
        check(top, files, ids)


def seen(view: IndexView, paths: list[str], renamed: set[str]) -> dict[str, set[str]]:
    """The commits of each path's file. Two paths are one file only where a rename lies between them: what one branch
    has renamed and another kept may live on under both names."""
    found = {}
    for path in paths:
        file = view.file(path.encode())
        assert file is not None, path
        found[path] = {*view.ids([commit.number for commit in view.commits(file, 1000)]).values()}
        (name,) = view.paths([file]).values()
        assert name == path.encode() or (view.file(name) == file and {path, name.decode()} <= renamed)
    return found


@pytest.mark.soak
@_SETTINGS
@given(branching, st.lists(st.integers(0, 15), max_size=4))
def test_branches_share_an_index_and_no_answers(
    clean_environment: Path, commits: list[tuple[bool, str | Operation]], steps: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder).resolve() / "repo"
        ids = make_branching(top, commits)
        worktree = open_worktree(top)
        with open_index(worktree) as shared:
            for step in steps:
                shared.update(ids[min(step, len(ids) - 1)])
            for tip in (ids[-1], *(ids[min(step, len(ids) - 1)] for step in steps)):
                assert shared.update(tip).complete
                reached = set(run(top, "rev-list", "--no-merges", tip).split())
                paths = run(top, "ls-tree", "-r", "--name-only", tip).split()
                view = shared.view(tip)
                left = {path for _, wanted in commits if wanted[0] == "rename" for path in wanted[1:]}
                answers = seen(view, paths, left)
                assert {*view.ids([c.number for c in view.latest(99)]).values()} == reached
                for path, found in answers.items():
                    direct = run(top, "log", "--no-merges", "--full-history", "--format=%H", tip, "--", path)
                    assert found <= reached
                    assert path in left or set(direct.split()) <= found  # one name, one file
                at_top = {*view.folder(b"", 99)}
                for path in {*paths} - left:
                    assert (view.file(path.encode()) in at_top) == ("/" not in path)
