"""Which commit's tree is noted in the index."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from repoagent.history.index import open_index
from repoagent.repo.worktree import layout, open_worktree
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
