"""A kill, or a failure, at the very end of an edit or during the creation of its branch: old or new, and nothing is
left over."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest

from repoagent.git.process import GitError
from repoagent.git.transaction import commit, finish
from repoagent.git.transaction.finish import recover
from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import undo
from repoagent.git.undo_log import list_edits
from tests.conftest import GitRepo
from tests.git.edits import edit, journals, keep, shout, worktree


def without_a_commit(repo: GitRepo) -> None:
    keep(repo, shout(repo, 5))


def is_there_and_known(repo: GitRepo) -> None:
    assert b"LINE 5" in repo.read("a.txt") and journals(repo) == []
    assert [one.undone for one in list_edits(worktree(repo))] == [False]
    undo(worktree(repo))
    assert repo.status() == ""


def test_killed_after_recording_an_edit_without_a_commit(repo: GitRepo) -> None:
    """From this point on, the edit is done: undoing it would leave an edit in the list that is in no file."""
    child = os.fork()
    if child == 0:
        vars(finish)["save"] = lambda *_: os._exit(9)
        without_a_commit(repo)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    (said,) = recover(worktree(repo))
    assert said.endswith("is complete")
    is_there_and_known(repo)


def test_a_failure_after_recording_an_edit_without_a_commit(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = iter([OSError(errno.ENOSPC, "No space left on device")])
    save = finish.save

    def failing(*arguments: Any) -> None:
        for error in saves:
            raise error
        save(*arguments)

    monkeypatch.setattr(finish, "save", failing)
    with pytest.raises(OSError, match="No space left"):
        without_a_commit(repo)
    is_there_and_known(repo)


def test_the_lock_of_a_new_branch_that_a_killed_git_has_left(repo: GitRepo) -> None:
    """Otherwise a branch of that name could never be created again."""
    child = os.fork()
    if child == 0:
        the_change = shout(repo, 5)
        with Transaction(worktree(repo), [the_change], Options(branch="topic")) as it:
            it.write()
            repo.write(".git/refs/heads/topic.lock", f"{repo.head()}\n")
            vars(commit)["switch_to_new"] = lambda *_: os._exit(9)
            it.commit("edit")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    recover(worktree(repo))
    assert not (repo.top / ".git/refs/heads/topic.lock").exists()
    assert repo.status() == "" and journals(repo) == []


def half_a_switch(repo: GitRepo, code: int) -> Callable[..., None]:
    """A git that has created the branch and is then killed (`code` is negative), or that fails because it exists."""

    def switch(*_: object) -> None:
        repo.git("branch", "topic", "HEAD")  # as the reflog of `git switch -c` has it
        if code < 0:
            repo.write(".git/HEAD.lock", "ref: refs/heads/topic\n")
        raise GitError(("switch",), code, b"no")

    return switch


@pytest.mark.parametrize(("code", "stays"), [(-9, False), (128, True)])
def test_a_switch_to_a_new_branch_that_fails_half_way(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, code: int, stays: bool
) -> None:
    monkeypatch.setattr(commit, "switch_to_new", half_a_switch(repo, code))
    with pytest.raises(GitError):
        edit(repo, shout(repo, 5), branch="topic")
    assert bool(repo.git("branch", "--list", "topic")) is stays
    assert not (repo.top / ".git/HEAD.lock").exists()
    assert repo.git("branch", "--show-current") == "main\n"
    assert repo.status() == "" and journals(repo) == []


KILLED: dict[str, Callable[[GitRepo], object]] = {
    "half a switch": lambda repo: repo.git("branch", "topic", "HEAD"),
    "a whole switch": lambda repo: None,
    "their branch": lambda repo: repo.git("branch", "topic"),
    "their switch": lambda repo: repo.git("switch", "-q", "-c", "topic"),
}


@pytest.mark.parametrize("how", KILLED)
def test_killed_while_creating_a_branch(repo: GitRepo, how: str) -> None:
    """The edit's branch is removed; one of its name that another program creates before the next command stays."""
    switch = vars(commit)["switch_to_new"]
    child = os.fork()
    if child == 0:

        def killed(*given: Any) -> None:
            if how == "a whole switch":
                switch(*given)
            elif how == "half a switch":
                KILLED[how](repo)
            os._exit(9)

        vars(commit)["switch_to_new"] = killed
        edit(repo, shout(repo, 5), branch="topic")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    theirs = how.startswith("their")
    if theirs:
        KILLED[how](repo)
    recover(worktree(repo))
    assert bool(repo.git("branch", "--list", "topic")) is theirs
    assert repo.git("branch", "--show-current") == ("topic\n" if how == "their switch" else "main\n")
    if how == "a whole switch":
        repo.git("switch", "-q", "-c", "other")
        repo.git("switch", "-q", "-")  # the reflog is still as git reads it
        assert repo.git("branch", "--show-current") == "main\n"
    assert repo.status() == "" and journals(repo) == []
