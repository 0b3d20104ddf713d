"""Facts of a repository: the operations that forbid a commit first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git.worktree import (
    Facts,
    WorkTree,
    current_branch,
    gather_facts,
    open_worktree,
    operation,
)
from tests.conftest import GitRepo


@pytest.fixture
def worktree(repo: GitRepo) -> WorkTree:
    return open_worktree(repo.top)


@pytest.fixture
def fork(repo: GitRepo) -> GitRepo:
    """`main` and `other` with a conflict in a.txt; `other` has two commits that `main` lacks."""
    repo.git("branch", "other")
    repo.write("a.txt", "ours\n")
    repo.commit("ours")
    repo.git("switch", "-q", "other")
    repo.write("a.txt", "theirs\n")
    repo.commit("theirs")
    repo.write("b.txt", "b\n")
    repo.commit("second of theirs")
    repo.git("switch", "-q", "main")
    return repo


def test_am_bisect_and_the_pause_of_a_series(fork: GitRepo) -> None:
    worktree = open_worktree(fork.top)
    patch = fork.git("format-patch", "--stdout", "other~2..other~1")
    fork.git("am", stdin=patch.encode(), ok=False)
    assert operation(worktree) == "am"
    fork.git("am", "--abort")
    fork.git("cherry-pick", "other~1", "other", ok=False)
    fork.git("checkout", "--theirs", "a.txt")
    fork.git("commit", "-qam", "picked")
    assert not (fork.top / ".git" / "CHERRY_PICK_HEAD").exists()
    assert operation(worktree) == "cherry-pick"
    fork.git("cherry-pick", "--abort", ok=False)
    fork.git("cherry-pick", "--quit")
    assert operation(worktree) is None
    fork.git("bisect", "start")
    assert operation(worktree) == "bisect"


def test_each_work_tree_has_its_own_operation(fork: GitRepo, tmp_path: Path) -> None:
    fork.git("worktree", "add", "-q", str(tmp_path / "linked"))
    fork.git("merge", "other", ok=False)
    assert operation(open_worktree(fork.top)) == "merge"
    assert operation(open_worktree(tmp_path / "linked")) is None
    assert gather_facts(open_worktree(fork.top)).unmerged == ("a.txt",)


def test_operation_with_reftable(fork: GitRepo, worktree: WorkTree) -> None:
    (fork.top / ".git" / "reftable").mkdir()
    assert operation(worktree) is None
    fork.git("update-ref", "CHERRY_PICK_HEAD", "other")
    assert operation(worktree) == "cherry-pick"


def test_an_unborn_branch(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("new")
    repo.git("symbolic-ref", "HEAD", "refs/heads/topic/one")
    gathered = gather_facts(open_worktree(repo.top))
    assert gathered == Facts("topic/one", (), (), None, ())


def test_head(repo: GitRepo, worktree: WorkTree) -> None:
    repo.git("switch", "-q", "-c", "topic/größe")
    assert current_branch(worktree) == "topic/größe"
    repo.git("switch", "-q", "--detach")
    assert current_branch(worktree) is None
    (repo.top / ".git" / "HEAD").unlink()
    (repo.top / ".git" / "HEAD").symlink_to("refs/heads/main")
    assert current_branch(worktree) == "main"


def test_subjects_without_merges(fork: GitRepo) -> None:
    latin = ("-c", "i18n.commitEncoding=latin1")
    fork.git(*latin, "commit", "-q", "--allow-empty", "-F", "-", stdin=b"gr\xf6\xdfe")
    fork.git("merge", "-q", "-s", "ours", "-m", "a merge", "other")
    gathered = gather_facts(open_worktree(fork.top))
    assert sorted(gathered.subjects) == ["first commit", "größe", "ours", "second of theirs", "theirs"]


def test_languages(repo: GitRepo, worktree: WorkTree) -> None:
    names = ("x.PY", "y.py", "z.tsx", ".gitignore", "src/.hidden", "Makefile", "a.b.xyz")
    for name in (*names, os.fsdecode(b"\xff.go")):
        repo.write(name, "")
    repo.git("add", "-A")
    languages = gather_facts(worktree).languages
    assert languages[0] == ("Python", 3)
    assert dict(languages) == {
        "Python": 3, "TypeScript": 1, "Go": 1, ".txt": 1, "Markdown": 1, ".xyz": 1,
    }  # fmt: skip
