"""Which commit's tree is noted in the index."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from repoagent.git.worktree import layout, open_worktree
from repoagent.history.index.index import open_index
from tests.conftest import GitRepo


def noted(top: Path) -> str:
    path = layout(open_worktree(top)).history
    with sqlite3.connect(path) as connection:
        (tip,) = connection.execute("SELECT value FROM meta WHERE key = 'alive'").fetchone()
    connection.close()
    return bytes(tip).decode()


def test_a_look_at_another_revision_leaves_the_tree_of_head_noted(repo: GitRepo) -> None:
    first = repo.commit("first", a="1", b="1")
    repo.git("rm", "-q", "b")
    repo.git("commit", "-qm", "second")
    head = repo.git("rev-parse", "HEAD").strip()
    with open_index(open_worktree(repo.top)) as index:
        index.update()
        assert index.update(first).complete
        view = index.view(first)
        gone = view.file(b"b")
        assert gone is not None and view.paths([gone]) == {gone: b"b"}
        assert noted(repo.top) == head
        assert index.view().paths([gone]) == {}


def test_head_on_another_branch_is_noted_anew(repo: GitRepo) -> None:
    repo.commit("first", a="1")
    main = repo.git("rev-parse", "HEAD").strip()
    repo.git("switch", "-qc", "other")
    repo.commit("second", b="1")
    other = repo.git("rev-parse", "HEAD").strip()
    with open_index(open_worktree(repo.top)) as index:
        index.update(other, head=True)
        assert noted(repo.top) == other
        index.update(main, head=True)
        assert noted(repo.top) == main
        view = index.view(other)
        file = view.file(b"b")
        assert file is not None and view.paths([file]) == {file: b"b"}


def test_a_name_that_is_another_file_on_another_branch(repo: GitRepo) -> None:
    repo.commit("first", a="a long enough text\n" * 9)
    repo.git("switch", "-qc", "other")
    (repo.top / "d").mkdir()
    repo.git("mv", "a", "d/b")
    repo.git("commit", "-qm", "moved")
    other = repo.head()
    repo.git("switch", "-q", "main")
    main = repo.commit("its own", **{"d/b": "1"})
    with open_index(open_worktree(repo.top)) as index:
        for tip in (other, main, other, main):
            index.update(tip, head=True)
            assert noted(repo.top) == tip
            view = index.view(tip)
            found = {path: view.file(path) for path in (b"a", b"d/b")}
            old, new = found[b"a"], found[b"d/b"]
            assert old is not None and new is not None
            assert view.paths([old, new]) == ({old: b"d/b"} if tip == other else {old: b"a", new: b"d/b"})
            assert view.folder(b"d", 9) == [new]


def test_the_recorded_tree_is_gone(repo: GitRepo) -> None:
    repo.commit("first", a="1")
    with open_index(open_worktree(repo.top)) as index:
        index.update()
    repo.git("commit", "-q", "--amend", "-m", "better")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    with open_index(open_worktree(repo.top)) as index:
        index.update()
        view = index.view()
        file = view.file(b"a")
        assert file is not None and view.paths([file]) == {file: b"a"}
    assert noted(repo.top) == repo.head()
