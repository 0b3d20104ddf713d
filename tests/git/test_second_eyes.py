"""GitPython, a second reader with parsers in pure Python, must agree with git on the results of transactions."""

from __future__ import annotations

from collections.abc import Iterator

import git
import pytest
from git.index.fun import read_cache

from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.conftest import PATH
from tests.git.edits import change, edit, new_file, worktree

pytestmark = pytest.mark.filterwarnings("ignore:GitDB is deprecated:DeprecationWarning")
PATCH = "--- a/b.txt\n+++ b/b.txt\n@@ -4,3 +4,3 @@\n line 4\n-line 5\n+staged 5\n line 6\n"


def agree(repo: GitRepo, version: int) -> None:
    """The index, of this format, and the trees of all commits, as both read them."""
    with (repo.top / ".git/index").open("rb") as file:
        assert read_cache(file)[0] == version
    with git.Repo(repo.top, odbt=git.GitDB) as second:
        entries = git.index.IndexFile(second).entries.values()
        staged = [f"{entry.mode:06o} {entry.hexsha} {entry.stage}\t{entry.path}" for entry in entries]
        assert sorted(staged) == sorted(repo.git("ls-files", "-z", "--stage").split("\0")[:-1])
        for commit in second.iter_commits("--all"):
            listed = repo.git("ls-tree", "-r", "-t", "-z", commit.hexsha).split("\0")[:-1]
            assert sorted(tree_of(commit.tree)) == sorted(listed)
        head = second.head.commit
        assert head.hexsha == repo.head()
        for blob in (item for item in head.tree.traverse() if isinstance(item, git.Blob)):
            data = blob.data_stream.read()
            assert data == repo.git("cat-file", "blob", blob.hexsha).encode("utf-8", "surrogateescape")


def tree_of(tree: git.Tree) -> Iterator[str]:
    for item in tree.traverse():
        assert isinstance(item, (git.Blob, git.Tree))
        yield f"{item.mode:06o} {item.type} {item.hexsha}\t{item.path}"


def test_edit_undo_and_redo(repo: GitRepo) -> None:
    script = new_file("é/new file.sh", b"#!/bin/sh\n", "100755")
    edit(repo, change(repo, "a.txt", "line 5\n", "five\n"), script)
    agree(repo, 2)
    for step in (undo, redo):
        step(worktree(repo))
        agree(repo, 2)
    repo.commit("on top", **{"README.md": "mine\n"})
    undo(worktree(repo))
    agree(repo, 2)


def test_partly_staged(messy: GitRepo) -> None:
    edit(messy, change(messy, "a.txt", "line 2\n", "two\n"))
    agree(messy, 2)
    messy.git("apply", "--cached", stdin=PATCH.encode())
    edit(messy, change(messy, "b.txt", "line 1\n", "one\n"), new_file("deep/er/new.txt", b"new\n"))
    agree(messy, 2)
    undo(worktree(messy))
    agree(messy, 2)


def test_extended_flags(busy: GitRepo) -> None:
    """`add -N` and skip-worktree make git write version 3."""
    agree(busy, 3)
    edit(busy, change(busy, PATH, "line 11\n", "eleven\n"), change(busy, "both.txt", "line 11\n", "eleven\n"))
    agree(busy, 3)
    undo(worktree(busy))
    agree(busy, 3)
