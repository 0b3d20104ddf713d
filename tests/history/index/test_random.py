"""Random histories: which file is which, mined in one go, backwards in pieces and forwards in steps, on one branch
and on several. The histories are made with `git fast-import`."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from repoagent.git.worktree import open_worktree
from repoagent.history.index import miner
from repoagent.history.index.index import IndexState, open_index
from repoagent.history.index.reader import IndexView

START = 1_600_000_000

# (kind, path, other): other is the new path of a rename. Two files that swap their names are none: git sees
# two changed files then.
Operation = tuple[str, str, str]
_PATH = st.sampled_from(("a", "b", "d/c", "d/e", "f.py"))
operations = st.tuples(st.sampled_from(("change", "add", "delete", "rename")), _PATH, _PATH)
linear = st.lists(st.lists(operations, min_size=1, max_size=3), min_size=1, max_size=10)
# What a commit of a branching history does: on which of two lanes, what; or a merge of the other lane into it.
_STEP = st.tuples(st.booleans(), st.one_of(st.just("merge"), operations))
branching = st.lists(_STEP, min_size=4, max_size=16)
Tree = dict[str, str]  # path: content


def run(top: Path, *args: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *args], cwd=top, input=stdin, capture_output=True, check=True)
    return done.stdout.decode()


def _change(tree: Tree, wanted: Operation, number: int) -> bool:
    """Do it, if it can be done."""
    kind, path, other = wanted
    if kind == "change" and path in tree:
        tree[path] += f"changed in {number}\n"
    elif kind == "add" and path not in tree:
        tree[path] = "".join(f"line {line} of {path} in {number}\n" for line in range(40))
    elif kind == "delete" and path in tree:
        del tree[path]
    elif kind == "rename" and path in tree and other not in tree:
        tree[other] = tree.pop(path)
    else:
        return False
    return True


def _commit(tree: Tree, number: int, branch: str = "main", parents: str = "") -> str:
    head = f"commit refs/heads/{branch}\nmark :{number}\ncommitter A <a@b> {START + number} +0000\ndata 0\n"
    blobs = "".join(f"M 100644 inline {path}\ndata {len(data)}\n{data}\n" for path, data in tree.items())
    return f"{head}{parents}deleteall\n{blobs}\n"


def _import(top: Path, stream: list[str]) -> list[str]:
    """Make a repository at `top` without files; the ids of its commits, in their order."""
    top.mkdir(parents=True)
    run(top, "init", "-q", "-b", "main")
    marks = top / ".git" / "marks"
    run(top, "fast-import", "--quiet", f"--export-marks={marks}", stdin="".join(stream).encode())
    ids = dict(line.split() for line in marks.read_text().splitlines())
    return [ids[f":{number}"] for number in range(1, len(stream) + 1)]


def make(top: Path, commits: list[list[Operation]]) -> tuple[dict[str, list[int]], list[str]]:
    """A repository; for each path at its end, the commits that changed its file, newest first; the ids of all commits.

    Each commit does those operations that can be done; each path takes part in one only.
    """
    tree: Tree = {}
    files: dict[str, list[int]] = {}
    deleted: dict[str, list[int]] = {}  # by the path that the file had: it is the same if it comes back
    stream = []
    for number, wanted in enumerate(commits):
        used: set[str] = set()
        for operation in wanted:
            kind, path, other = operation
            both = {path, other} if kind == "rename" else {path}
            if both & used or not _change(tree, operation, number):
                continue
            used |= both
            if kind == "add":
                files[path] = deleted.pop(path, [])
            if number not in files[path]:
                files[path].insert(0, number)
            if kind == "delete":
                deleted[path] = files.pop(path)
            elif kind == "rename":
                files[other] = files.pop(path)
                deleted.pop(other, None)
        stream.append(_commit(tree, number + 1))
    return files, _import(top, stream)


def make_branching(top: Path, commits: list[tuple[bool, str | Operation]]) -> list[str]:
    """A repository with the branches `main` and `other` and merges between them; the ids of all commits that were
    some branch's tip, in their order.

    No name that a file has left is given to another: which of the two a parallel branch means by it nobody can tell.
    """
    lanes: list[Tree] = [{}, {}]
    tips, bases = [0, 0], Tree()
    stream: list[str] = []
    left: set[str] = set()
    for second, wanted in [(False, ("add", "a", "b")), (False, ("add", "d/c", "b")), *commits]:
        lane = int(second)
        tree = lanes[lane]
        if not tips[lane] and tips[0]:  # the other lane leaves the first
            lanes[lane] = tree = dict(lanes[0])
            tips[lane] = tips[0]
            bases = dict(tree)
        parents = f"from :{tips[lane]}\n" if tips[lane] else ""
        if isinstance(wanted, str):
            theirs = lanes[1 - lane]
            if not tips[1 - lane] or tips[0] == tips[1]:
                continue
            for path in {*theirs, *tree, *bases}:
                if tree.get(path) == bases.get(path):
                    tree.pop(path, None)
                    if path in theirs:
                        tree[path] = theirs[path]
            parents += f"merge :{tips[1 - lane]}\n"
            bases = dict(theirs)
        else:
            kind, path, other = wanted
            taken = path if kind == "add" else other if kind == "rename" else ""
            if taken in left or not _change(tree, wanted, len(stream)):
                continue
            if kind == "rename":
                left.add(path)
        tips[lane] = len(stream) + 1
        stream.append(_commit(tree, tips[lane], ("main", "other")[lane], parents))
    return _import(top, stream)


_CHECKS, _PHASES = [HealthCheck.function_scoped_fixture], [Phase.explicit, Phase.reuse, Phase.generate]
_SETTINGS = settings(deadline=None, suppress_health_check=_CHECKS, max_examples=12, phases=_PHASES)


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
