"""Facts of a repository: the operations that forbid a commit first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git import facts
from repoagent.git.worktree import WorkTree, open_worktree
from tests.conftest import GitRepo


@pytest.fixture
def worktree(repo: GitRepo) -> WorkTree:
    return open_worktree(repo.top)


@pytest.fixture
def fork(repo: GitRepo) -> GitRepo:
    """`main` and `other` that conflict in a.txt; `other` has two commits of its own."""
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


@pytest.mark.soak
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["merge", "other"], "merge"),
        (["rebase", "other"], "rebase"),
        (["rebase", "--apply", "other"], "rebase"),
        (["cherry-pick", "other~1"], "cherry-pick"),
        (["cherry-pick", "other~1", "other"], "cherry-pick"),
        (["revert", "--no-edit", "HEAD~1"], "revert"),
        (["merge", "--squash", "other"], "squash"),
    ],
)
def test_an_operation_in_progress(fork: GitRepo, command: list[str], expected: str) -> None:
    if expected == "revert":
        fork.write("a.txt", "more\n")
        fork.commit("more")
    fork.git(*command, ok=False)
    found = facts.gather_facts(open_worktree(fork.top))
    assert found.operation == expected
    assert found.unmerged == ("a.txt",)


def test_am_bisect_and_the_pause_of_a_series(fork: GitRepo) -> None:
    worktree = open_worktree(fork.top)
    patch = fork.git("format-patch", "--stdout", "other~2..other~1")
    fork.git("am", stdin=patch.encode(), ok=False)
    assert facts.operation(worktree) == "am"
    fork.git("am", "--abort")
    fork.git("cherry-pick", "other~1", "other", ok=False)
    fork.git("checkout", "--theirs", "a.txt")
    fork.git("commit", "-qam", "picked")
    assert not (fork.top / ".git" / "CHERRY_PICK_HEAD").exists()
    assert facts.operation(worktree) == "cherry-pick"
    fork.git("cherry-pick", "--abort", ok=False)
    fork.git("cherry-pick", "--quit")
    assert facts.operation(worktree) is None
    fork.git("bisect", "start")
    assert facts.operation(worktree) == "bisect"


def test_each_work_tree_has_its_own_operation(fork: GitRepo, tmp_path: Path) -> None:
    fork.git("worktree", "add", "-q", str(tmp_path / "linked"))
    fork.git("merge", "other", ok=False)
    assert facts.operation(open_worktree(fork.top)) == "merge"
    assert facts.operation(open_worktree(tmp_path / "linked")) is None


def test_where_refs_are_no_files_git_is_asked(fork: GitRepo, worktree: WorkTree) -> None:
    (fork.top / ".git" / "reftable").mkdir()
    assert facts.operation(worktree) is None
    fork.git("update-ref", "CHERRY_PICK_HEAD", "other")
    assert facts.operation(worktree) == "cherry-pick"


def test_an_unborn_branch(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("new")
    repo.git("symbolic-ref", "HEAD", "refs/heads/topic/one")
    found = facts.gather_facts(open_worktree(repo.top))
    assert found == facts.Facts(facts.Head(None, "topic/one"), (), (), (), None, ())
    assert found.head.unborn and not found.head.detached


def test_head(repo: GitRepo, worktree: WorkTree) -> None:
    assert facts.head(worktree) == facts.Head(repo.head(), "main")
    repo.git("switch", "-q", "-c", "topic/größe")
    assert facts.head(worktree).branch == "topic/größe"
    repo.git("switch", "-q", "--detach")
    assert facts.head(worktree) == facts.Head(repo.head(), None)
    assert facts.head(worktree).detached


def test_a_head_that_is_a_symbolic_link(repo: GitRepo, worktree: WorkTree) -> None:
    (repo.top / ".git" / "HEAD").unlink()
    (repo.top / ".git" / "HEAD").symlink_to("refs/heads/main")
    assert facts.head(worktree) == facts.Head(repo.head(), "main")


def test_subjects_leave_merges_out(fork: GitRepo) -> None:
    fork.git("merge", "-q", "-s", "ours", "-m", "a merge", "other")
    worktree = open_worktree(fork.top)
    found = facts.last_subjects(worktree, 3)
    assert len(found) == 3 and set(found) <= {"ours", "theirs", "second of theirs", "first commit"}
    assert facts.head(worktree).commit == fork.head()


def test_subjects_that_are_not_utf8(repo: GitRepo, worktree: WorkTree) -> None:
    repo.git(
        "-c", "i18n.commitEncoding=latin1", "commit", "-q", "--allow-empty", "-F", "-", stdin=b"gr\xf6\xdfe"
    )
    assert facts.last_subjects(worktree, 1) == ("größe",)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pass@example.com/a/b.git", "https://example.com/a/b.git"),
        ("https://ghp_token@example.com/a@b", "https://example.com/a@b"),
        ("https://u:p@ss@example.com:8443/a?private_token=x#y", "https://example.com:8443/a"),
        ("ssh://git:secret@example.com/a", "ssh://git@example.com/a"),
        ("git@example.com:a/b.git", "git@example.com:a/b.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
        ("helper::https://t@example.com/a", "helper::https://example.com/a"),
    ],
)
def test_remotes_without_credentials(repo: GitRepo, worktree: WorkTree, url: str, shown: str) -> None:
    repo.git("remote", "add", "odd.name", url)
    assert facts.remotes(worktree) == (("odd.name", shown),)


def test_languages(repo: GitRepo, worktree: WorkTree) -> None:
    for name in (
        "x.PY",
        "y.py",
        "z.tsx",
        ".gitignore",
        "src/.hidden",
        "Makefile",
        "a.b.xyz",
        os.fsdecode(b"\xff.go"),
    ):
        repo.write(name, "")
    repo.git("add", "-A")
    assert dict(facts.languages(worktree)) == {
        "Python": 3, "TypeScript": 1, "Go": 1, ".txt": 1, "Markdown": 1, ".xyz": 1,
    }  # fmt: skip
    assert facts.languages(worktree)[0] == ("Python", 3)
