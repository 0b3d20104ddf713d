"""Undo and redo if the edit's commit was rewritten, copied, cut off, or is on another branch as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.edits import committed, lines, worktree
from tests.git.line_two import ID, edit_line_2
from tests.git.snapshot import changed, snapshot, untimed

LINES = lines()
Act = Callable[[GitRepo], object]


def amend(repo: GitRepo) -> None:
    repo.git("commit", "-q", "--amend", "-m", f"better words\n\nRepoagent-Edit: {ID}")


def rebase(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "-b", "upstream", "HEAD^")
    repo.write("other.txt", "other\n")
    repo.commit("upstream")
    repo.git("rebase", "-q", "upstream", "main")
    repo.git("branch", "-q", "-D", "upstream")


def pick(repo: GitRepo) -> None:
    rebase(repo)
    repo.git("checkout", "-q", "-b", "picked", "HEAD^")
    repo.git("cherry-pick", "main")
    repo.git("branch", "-q", "-D", "main")


@pytest.mark.parametrize("rewrite", [amend, rebase, pick])
def test_a_rewritten_commit_is_undone_and_redone(repo: GitRepo, rewrite: Act) -> None:
    edit_line_2(repo)
    rewrite(repo)
    after = snapshot(repo)
    assert undo(worktree(repo)).moved and repo.read("a.txt").decode() == LINES
    assert redo(worktree(repo)).moved
    assert changed(untimed(after), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("indented", [True, False])
def test_a_squash_merged_edit_is_taken_out_of_it(repo: GitRepo, indented: bool) -> None:
    repo.git("checkout", "-q", "-b", "topic")
    edit_line_2(repo)
    repo.write("topic.txt", "topic\n")
    repo.commit("more of it")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--squash", "topic")
    words = (
        ["--no-edit"] if indented else ["-m", f"Topic (#1)\n\n* edit\n\nRepoagent-Edit: {ID}\n\n* more of it"]
    )
    repo.git("commit", "-q", *words)
    squashed = repo.head()
    repo.git("branch", "-q", "-D", "topic")
    assert not undo(worktree(repo)).moved
    assert f"This reverts the edit {ID} in commit {squashed}." in repo.git("log", "-1", "--format=%b")
    assert committed(repo, "a.txt") == LINES and committed(repo, "topic.txt") == "topic\n"
    assert repo.git("rev-parse", "HEAD^").strip() == squashed and repo.status() == ""


def test_an_edit_of_another_branch_is_refused_by_its_name(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "-b", "topic")
    edit_line_2(repo)
    repo.git("checkout", "-q", "main")
    before = snapshot(repo)
    with pytest.raises(Refused, match=r"not in the history of this branch: switch to its branch \(topic\)"):
        undo(worktree(repo))
    assert changed(before, snapshot(repo)) == set()


@pytest.mark.parametrize("options", [["--detach"], ["-b", "other"]], ids=" ".join)
def test_a_work_tree_on_top_of_the_commit_keeps_it(repo: GitRepo, tmp_path: Path, options: list[str]) -> None:
    edit_line_2(repo)
    made = repo.head()
    linked = GitRepo(tmp_path / "linked")
    repo.git("worktree", "add", "-q", *options, str(linked.top))
    linked.git("commit", "-q", "--allow-empty", "-m", "on it")
    assert not undo(worktree(repo)).moved and repo.git("rev-parse", "HEAD^").strip() == made


def test_in_a_linked_work_tree(repo: GitRepo, tmp_path: Path) -> None:
    linked = GitRepo(tmp_path / "linked")
    repo.git("worktree", "add", "-q", "-b", "topic", str(linked.top))
    main, before = snapshot(repo), snapshot(linked)
    edit_line_2(linked)
    after = snapshot(linked)
    with pytest.raises(NothingDone):
        undo(worktree(repo))  # it is not an edit of this work tree
    assert undo(worktree(linked)).moved
    assert changed(untimed(before), untimed(snapshot(linked))) == set()
    assert redo(worktree(linked)).moved
    assert changed(untimed(after), untimed(snapshot(linked))) == set()
    assert changed(main, snapshot(repo)) == {"ref refs/heads/topic"}


@pytest.mark.parametrize("cut", ["shallow", "graft"])
def test_a_tip_whose_parent_git_does_not_show_is_reverted(repo: GitRepo, cut: str) -> None:
    edit_line_2(repo)
    made = repo.head()
    if cut == "shallow":
        (repo.top / ".git/shallow").write_text(made + "\n")
    else:
        repo.git("replace", "--graft", made)
    assert repo.git("rev-list", "--count", "HEAD").strip() == "1"
    before = snapshot(repo)
    assert not undo(worktree(repo)).moved
    assert repo.git("rev-parse", "HEAD^").strip() == made and committed(repo, "a.txt") == LINES
    assert changed(before, snapshot(repo)) == {"file a.txt", "index a.txt", "ref refs/heads/main"}


def test_in_a_shallow_clone(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("second", **{"b.txt": "b\n"})
    clone = GitRepo(tmp_path / "clone")
    repo.git("clone", "-q", "--depth=1", f"file://{repo.top}", str(clone.top))
    before = snapshot(clone)
    edit_line_2(clone)
    after = snapshot(clone)
    assert undo(worktree(clone)).moved
    assert changed(untimed(before), untimed(snapshot(clone))) == set()
    redo(worktree(clone))
    assert changed(untimed(after), untimed(snapshot(clone))) == set()
