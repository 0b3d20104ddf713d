"""Concurrent changes between the plan of an edit and its end: hooks and programs that commit, locks, a kill."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from repoagent.errors import Busy
from repoagent.git.transaction.finish import recover
from repoagent.git.transaction.results import CommitResult, HookFailed
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import undo
from repoagent.git.undo_log import is_shared
from repoagent.git.worktree import WorkTree
from tests.conftest import GitRepo
from tests.git.edits import edit, journals, lines, shout, worktree
from tests.git.snapshot import changed, snapshot, untimed

pytestmark = pytest.mark.soak

LINES = lines()
OWN = {"file a.txt", "index a.txt", "status a.txt"}

MEDDLING_HOOKS = {
    # the hook, its script, and whether the edit is committed
    "before, by plumbing": (
        "pre-commit",
        "git update-ref HEAD $(git commit-tree -p HEAD -m theirs HEAD^{tree})",
        False,
    ),
    "before, in prepare-commit-msg": (
        "prepare-commit-msg",
        "git update-ref HEAD $(git commit-tree -p HEAD -m theirs HEAD^{tree})",
        False,
    ),
    "after": (
        "post-commit",
        'if [ -z "$AGAIN" ]; then echo 1 > COUNT; git add COUNT; AGAIN=1 git commit -qm theirs; fi',
        True,
    ),
    "after, two": (
        "post-commit",
        "if [ -z \"$AGAIN\" ]; then export AGAIN=1; for n in 1 2; do git commit -q --allow-empty -m theirs; done; fi",
        True,
    ),
    "after, by plumbing": (
        "post-commit",
        "git update-ref HEAD $(git commit-tree -p HEAD -m theirs HEAD^{tree})",
        True,
    ),
    "amended after": (
        "post-commit",
        'if [ -z "$AGAIN" ]; then AGAIN=1 git commit -q --amend -m "edit, numbered"; fi',
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "work", [pytest.param(False, marks=pytest.mark.soak, id="clean"), pytest.param(True, id="other work")]
)
@pytest.mark.parametrize("how", MEDDLING_HOOKS)
def test_a_hook_that_commits_loses_neither_its_commit_nor_ours(repo: GitRepo, how: str, work: bool) -> None:
    hook, script, done = MEDDLING_HOOKS[how]
    if work:
        repo.write("README.md", "staged\n")
        repo.git("add", "README.md")
        repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    repo.hook(hook, script)
    before, start = snapshot(repo), repo.head()
    made: CommitResult | None = None
    the_edit = shout(repo, 2)
    if done:
        made = edit(repo, the_edit)
    else:
        with pytest.raises((Busy, HookFailed)):
            edit(repo, the_edit)
    subjects = repo.git("log", "--format=%s", f"{start}..HEAD").splitlines()
    assert subjects.count("theirs") == {"after, two": 2, "amended after": 0}.get(how, 1)
    assert len([subject for subject in subjects if subject.startswith("edit")]) == done
    after = snapshot(repo)
    moved = {"ref refs/heads/main"}
    if made is None:
        assert changed(untimed(before), untimed(after)) == moved and "LINE 2" not in repo.git(
            "show", "HEAD:a.txt"
        )
    else:
        assert changed(before, after) - moved <= OWN | {"file COUNT", "index COUNT"}
        assert repo.git("rev-parse", f"{made.commit}^").strip() == start
        assert repo.git("show", f"{made.commit}:a.txt") == LINES.replace("line 2", "LINE 2")
        assert repo.git("show", "HEAD:a.txt") == LINES.replace("line 2", "LINE 2")
    assert repo.status() == ("M  README.md\n M a.txt\n" if work else "").replace(
        "M  README.md\n M", "M  README.md\n M"
    )
    assert journals(repo) == []


def test_a_hook_that_commits_what_was_to_be_committed(repo: GitRepo) -> None:
    """git itself fails then, but HEAD has the change: the edit is done, and undo finds it."""
    repo.hook("pre-commit", "git commit -q --no-verify -m theirs")
    before = snapshot(repo)
    made = edit(repo, shout(repo, 2))
    assert repo.head() == made.commit and repo.git("log", "-1", "--format=%s") == "theirs\n"
    assert changed(before, snapshot(repo)) == {"file a.txt", "index a.txt", "ref refs/heads/main"}
    undo(worktree(repo))
    assert changed(untimed(before), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("lock", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
@pytest.mark.parametrize("how", ["edit", "undo"])
def test_a_lock_of_another_program(repo: GitRepo, lock: str, how: str) -> None:
    edit(repo, shout(repo, 2))
    (repo.top / ".git" / lock).touch()
    before = snapshot(repo)
    with pytest.raises((Busy, HookFailed), match=r"lock") as caught:
        if how == "edit":
            edit(repo, shout(repo, 5))
        else:
            undo(worktree(repo))
    assert isinstance(caught.value, Busy) or how == "edit"
    after = snapshot(repo)
    assert changed(untimed(before), untimed(after)) == set() and changed(before, after) <= OWN
    assert journals(repo) == []


def test_a_commit_between_undo_and_its_move_is_kept(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit made after undo has read HEAD must not be removed with the edit."""
    from repoagent.git import undo as module

    edit(repo, shout(repo, 2))

    def slowly(place: WorkTree, commit: str) -> bool:
        answer = is_shared(place, commit)
        repo.git("commit", "-q", "--allow-empty", "-m", "theirs")
        return answer

    monkeypatch.setattr(module, "is_shared", slowly)
    with pytest.raises(Busy, match="another program moved HEAD: check `git log`"):
        undo(worktree(repo))
    assert repo.git("log", "-1", "--format=%s") == "theirs\n" and b"LINE 2" in repo.read("a.txt")
    assert repo.status() == "" and journals(repo) == []


EDIT_IN_A_CHILD = """
import os, pathlib
from tests.conftest import GitRepo
from tests.git.edits import edit, shout
repo = GitRepo(pathlib.Path({top!r}))
(repo.top / ".git" / "pid").write_text(str(os.getpid()))
edit(repo, shout(repo, 2))
"""


def test_a_message_that_waits_for_the_users_commit_survives_a_kill(repo: GitRepo) -> None:
    """git has removed it before the hook runs, so only the next command can restore it."""
    waiting = repo.write(".git/MERGE_MSG", "picked, not committed yet\n")
    repo.hook("post-commit", "kill -9 $(cat .git/pid)\n")
    subprocess.run(
        [sys.executable, "-c", EDIT_IN_A_CHILD.format(top=str(repo.top))], capture_output=True, check=False
    )
    assert not waiting.exists()
    deadline = time.monotonic() + 20
    while not (said := recover(worktree(repo))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "is complete now" in said[0] and waiting.read_text() == "picked, not committed yet\n"
    assert repo.status() == "" and journals(repo) == []


@pytest.mark.parametrize("moved", ["branch", "commit"])
@pytest.mark.parametrize("at_once", [True, False])
def test_head_that_moves_before_the_commit(repo: GitRepo, moved: str, at_once: bool) -> None:
    """By a program that ignores the lock."""
    other = repo.git("commit-tree", "-p", "HEAD", "-m", "theirs", "HEAD^{tree}").strip()
    with (
        pytest.raises(Busy, match="another program moved HEAD during the edit: run the edit again"),
        Transaction(worktree(repo), [shout(repo, 5)]) as transaction,
    ):
        transaction.write()
        if moved == "commit":
            repo.git("update-ref", "HEAD", other)
        else:
            repo.git("branch", "other")
            repo.git("symbolic-ref", "HEAD", "refs/heads/other")
        transaction.commit("edit\n", at_once=at_once)
    assert repo.status() == "" and b"LINE 5" not in repo.read("a.txt") and journals(repo) == []
    assert repo.git("log", "--format=%s", "-1").strip() == ("theirs" if moved == "commit" else "first commit")
