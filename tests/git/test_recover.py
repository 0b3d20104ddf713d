"""A kill or a failure at any step leaves an edit that the next command completes or undoes, and nothing else."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from repoagent.errors import Busy
from repoagent.git import file_writer
from repoagent.git import undo as undo_module
from repoagent.git.process import GitError
from repoagent.git.transaction import commit, finish, other_files, transaction
from repoagent.git.transaction.finish import recover_transactions
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import undo
from repoagent.git.undo_log import list_edits
from tests.conftest import GitRepo
from tests.git.edits import (
    Child,
    committed,
    delete,
    dies,
    edit,
    journals,
    keep,
    lines,
    new_file,
    recovered,
    shell,
    shout,
    wait_for,
    worktree,
)
from tests.git.snapshot import visible

LINES, EDITED = lines(), lines({5: "LINE 5"})


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def note_pid(repo: GitRepo) -> Callable[[], object]:
    return lambda: repo.write("pid", str(os.getpid()))


def test_nothing_to_recover_and_a_living_owner(repo: GitRepo) -> None:
    assert recover_transactions(worktree(repo)) == []
    with Transaction(worktree(repo), [shout(repo, 5)]) as transaction:
        transaction.write()
        assert recover_transactions(worktree(repo)) == []
        transaction.commit("edit\n")
    assert recover_transactions(worktree(repo)) == []


def test_a_file_saved_after_the_kill_is_left(repo: GitRepo) -> None:
    Child(repo, kill_itself).ended()
    repo.write("a.txt", "saved since\n")
    (note,) = recover_transactions(worktree(repo))
    assert "a.txt changed" in note and journals(repo) == []
    assert repo.read("a.txt") == b"saved since\n" and not (repo.top / ".git/index.lock").exists()
    (kept,) = (repo.top / ".git/repoagent/kept").iterdir()
    assert ((kept / "old-0").read_text(), (kept / "new-0").read_text()) == (LINES, EDITED)


def test_a_file_torn_in_place_is_restored_and_the_lock_of_another_stays(repo: GitRepo) -> None:
    os.link(repo.top / "a.txt", repo.top / "b.txt")
    Child(repo, kill_itself).ended()
    (repo.top / "a.txt").write_bytes(EDITED.encode()[:30] + LINES.encode()[30:])
    lock = repo.top / ".git/index.lock"
    lock.unlink()
    lock.write_bytes(b"another git")
    (note,) = recover_transactions(worktree(repo))
    assert "rolled back" in note and lock.read_bytes() == b"another git"
    assert repo.read("a.txt").decode() == repo.read("b.txt").decode() == LINES


def test_another_program_removed_the_lock_and_continued(repo: GitRepo) -> None:
    """No file changes while it holds the lock itself."""
    repo.write("README.md", "mine\n")
    repo.hook("post-commit", "git checkout -q -- README.md; kill -9 $(cat pid)\n")
    Child(repo, note_pid(repo)).ended()
    shell(repo, "rm .git/index.lock; echo another git > .git/index.lock")
    with pytest.raises(Busy):
        recovered(repo)
    assert repo.read("README.md") != b"mine\n"
    shell(repo, "rm .git/hooks/post-commit .git/index.lock")
    shell(repo, "echo mine > README.md; sed -i 's/line 9/mine 9/' a.txt; git commit -qm mine README.md a.txt")
    (note,) = recovered(repo)
    assert "is now complete" in note and repo.status() == "?? pid\n"
    assert committed(repo, "a.txt") == lines({5: "LINE 5", 9: "mine 9"})


@pytest.mark.parametrize("hook", ["pre-commit", "post-commit"])
def test_killed_by_a_hook_while_git_goes_on(repo: GitRepo, hook: str) -> None:
    """git removes a message that waits for the user's commit, so only the next command can restore it."""
    repo.write("README.md", "mine\n")
    waiting = repo.write(".git/MERGE_MSG", "picked, not committed yet\n")
    repo.hook(hook, "kill -9 $(cat pid); sleep 0.5\n")
    Child(repo, note_pid(repo)).ended()
    assert recover_transactions(worktree(repo)) == []  # git still runs
    assert re.search("was committed as .* is now complete", recovered(repo)[0])
    assert repo.status() == " M README.md\n?? pid\n" and committed(repo, "a.txt") == EDITED
    assert waiting.read_text() == "picked, not committed yet\n" and journals(repo) == []


@pytest.mark.parametrize("where", ["body", "hook", "hook, twice", "lock", "after the commit"])
def test_interrupted(repo: GitRepo, where: str) -> None:
    before = visible(repo)
    waiting = "for n in $(seq 12); do sleep 0.1; done\n"
    # git removes its locks when it gets a signal, but not one that it is about to create
    locks = "touch .git/refs/heads/main.lock; " if where == "lock" else ""
    repo.hook("post-commit" if "after" in where else "pre-commit", f"{locks}touch .git/started; {waiting}")

    def waits() -> None:
        if where == "body":
            repo.write(".git/started", "")
            time.sleep(10)

    child = Child(repo, waits)
    wait_for(repo.top / ".git/started")
    for _ in range(1 + where.count("twice")):
        os.kill(child.pid, signal.SIGINT)
        time.sleep(0.01)
    assert "KeyboardInterrupt" in child.ended()
    assert recover_transactions(worktree(repo)) == [] and journals(repo) == []
    assert not (repo.top / ".git/refs/heads/main.lock").exists()
    if "after" in where:
        assert committed(repo, "a.txt") == EDITED and repo.status() == ""
    else:
        assert visible(repo) == before


def test_interrupted_while_a_hook_goes_on(repo: GitRepo) -> None:
    before = visible(repo)
    slow = "sed 's/LINE 5/  LINE 5/' a.txt > .git/new; touch .git/started; sleep 0.7; cat .git/new > a.txt; touch .git/end\n"
    repo.hook("pre-commit", slow)
    child = Child(repo)
    wait_for(repo.top / ".git/started")
    os.kill(child.pid, signal.SIGINT)
    child.ended()
    wait_for(repo.top / ".git/end")
    assert recover_transactions(worktree(repo)) == [] and visible(repo) == before


@pytest.mark.parametrize("command", ["commit", "symbolic-ref", "switch", "update-index"])
def test_interrupted_while_git_starts(repo: GitRepo, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """The signal comes when git runs already and Popen has not returned; git must not go on alone."""
    started: list[int] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, args: list[str], **options: Any) -> None:
            super().__init__(args, **options)
            if not started and command in args:
                self.send_signal(signal.SIGSTOP)  # else git may be the faster one
                started.append(self.pid)
                os.kill(os.getpid(), signal.SIGINT)

    before = visible(repo)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        edit(repo, shout(repo, 5), branch="topic")
    monkeypatch.undo()
    with pytest.raises(ChildProcessError):
        os.waitpid(started[0], os.WNOHANG)
    assert visible(repo) == before and journals(repo) == []


def test_a_broken_journal_is_kept_and_named(repo: GitRepo) -> None:
    Child(repo, kill_itself).ended()
    (folder,) = (repo.top / ".git/repoagent/journal").iterdir()
    (folder / "journal.json").write_text("{")
    (note,) = recover_transactions(worktree(repo))
    assert "cannot read the journal" in note and str(repo.top / ".git/repoagent/kept") in note
    assert journals(repo) == []


def test_saved_files_are_left_and_lost_ones_restored(repo: GitRepo) -> None:
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "mine too\n")
    repo.hook("pre-commit", "git checkout -q -- README.md src/app.py; kill -9 $(cat pid)\nexit 1\n")
    Child(repo, note_pid(repo)).ended()
    repo.write("src/app.py", "saved hours later\n")
    (note,) = recovered(repo)
    assert "src/app.py changed" in note
    assert repo.read("README.md") == b"mine\n" and repo.read("src/app.py") == b"saved hours later\n"
    (kept,) = (repo.top / ".git/repoagent/kept").iterdir()
    assert b"mine too\n" in {path.read_bytes() for path in kept.glob("found-*")}
    assert repo.read("a.txt").decode() == LINES


def dies_at(module: Any, name: str, action: Callable[[], object]) -> None:
    """Do it in a child process that is killed when it calls this function."""

    def act() -> None:
        vars(module)[name] = lambda *_, **__: kill_itself()
        action()

    dies(act)


# the function before which an edit is killed, and whether its commit exists then
POINTS = [
    (transaction, "read_status", False),
    (file_writer, "_swap", False),
    (file_writer, "_delete", False),
    (commit, "switch_to_new", False),
    (commit, "run_commit", False),
    (finish, "complete_transaction", True),
    (other_files, "put_entries", True),
    (finish, "to_dict", True),
    (finish, "remove_folder", True),
]


@pytest.mark.parametrize(("module", "name", "done"), POINTS, ids=[name for _, name, _ in POINTS])
def test_killed_while_editing(repo: GitRepo, module: Any, name: str, done: bool) -> None:
    """Next to the user's work; `tests/crash` kills at each event."""
    repo.write("a.txt", lines({9: "mine 9"}))
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    changes = [shout(repo, 5), new_file("n/new.txt", b"new\n"), delete(repo, "src/app.py")]
    before = visible(repo)

    for number in range(101 if name == "remove_folder" else 0):
        (repo.top / f".git/repoagent/edits/old{number}").mkdir(parents=True)
    dies_at(module, name, lambda: edit(repo, *changes, branch="topic"))
    notes = "".join(recover_transactions(worktree(repo)))
    assert recover_transactions(worktree(repo)) == [] and journals(repo) == []
    if done:
        assert "rolled back" not in notes and repo.git("branch", "--show-current") == "topic\n"
        assert committed(repo, "a.txt") == EDITED and repo.status() == "M  README.md\n M a.txt\n"
        undo(worktree(repo))
        repo.git("switch", "-q", "main")
        repo.git("branch", "-q", "-d", "topic")
    else:
        assert notes.endswith("was interrupted and has been rolled back")
    assert visible(repo) == before


@pytest.mark.parametrize("on_top", [0, 2])
@pytest.mark.parametrize("moved", [True, False])
def test_killed_while_the_branch_moves_before_another_commit(repo: GitRepo, moved: bool, on_top: int) -> None:
    """An undo that had moved the branch, and whose lock was removed, is complete even if HEAD has moved on."""
    before = repo.head()
    edit(repo, shout(repo, 5))
    dies_at(undo_module, "archive_edit" if moved else "git", lambda: undo(worktree(repo)))
    (repo.top / ".git/index.lock").unlink(missing_ok=True)
    for number in range(on_top):
        repo.git("commit", "-q", "--allow-empty", "--only", "-m", f"mine {number}")
    (note,) = recover_transactions(worktree(repo))
    assert ("complete" in note) == moved and journals(repo) == [] and repo.status() == ""
    assert (b"LINE 5" in repo.read("a.txt")) == (not moved)
    assert repo.git("rev-list", "--count", "HEAD").strip() == str(on_top + (1 if moved else 2))
    assert repo.git("merge-base", "HEAD", before).strip() == before


@pytest.mark.parametrize("fails", [True, False])
def test_an_edit_without_a_commit_fails_or_is_killed_after_it_was_recorded_and_while_it_is_unstaged(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """Once recorded, the edit is done: undoing it would leave an edit in the list that is in no file."""
    if fails:
        full = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(finish, "to_dict", Mock(wraps=finish.to_dict, side_effect=[full, *[DEFAULT] * 9]))
        with pytest.raises(OSError, match="No space left"):
            keep(repo, shout(repo, 5))
    else:
        dies_at(finish, "to_dict", lambda: keep(repo, shout(repo, 5)))
        (note,) = recover_transactions(worktree(repo))
        assert note.endswith("is complete")
    assert b"LINE 5" in repo.read("a.txt") and journals(repo) == []
    assert [one.undone for one in list_edits(worktree(repo))] == [False]
    if not fails:  # HEAD does not move: the next command unstages the rest, and names no commit
        repo.git("add", "a.txt")
        dies_at(undo_module, "archive_edit", lambda: undo(worktree(repo)))
        (note,) = recover_transactions(worktree(repo))
        assert note.endswith("is now complete") and "committed" not in note
    else:
        undo(worktree(repo))
    assert repo.status() == "" and repo.read("a.txt").decode() == LINES


@pytest.mark.parametrize(("code", "stays"), [(-9, False), (128, True)])
def test_a_switch_to_a_new_branch_that_fails_half_way(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, code: int, stays: bool
) -> None:
    """git has created the branch and is then killed (`code` is negative), or fails because it exists."""

    def switch(*_: object) -> None:
        repo.git("branch", "topic", "HEAD")  # as the reflog of `git switch -c` has it
        if code < 0:
            repo.write(".git/HEAD.lock", "ref: refs/heads/topic\n")
        raise GitError(("switch",), code, b"no")

    monkeypatch.setattr(commit, "switch_to_new", switch)
    with pytest.raises(GitError):
        edit(repo, shout(repo, 5), branch="topic")
    assert bool(repo.git("branch", "--list", "topic")) is stays
    assert not (repo.top / ".git/HEAD.lock").exists()
    assert repo.git("branch", "--show-current") == "main\n"
    assert repo.status() == "" and journals(repo) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("git branch topic HEAD", ""),
        ("git rev-parse HEAD > .git/refs/heads/topic.lock", ""),  # or no such branch could be created again
        ("switch", ""),
        ("", "git branch topic"),
        ("", "git switch -q -c topic"),
    ],
    ids=["half a switch", "a lock", "a whole switch", "their branch", "their switch"],
)  # fmt: skip
def test_killed_while_creating_a_branch(repo: GitRepo, before: str, after: str) -> None:
    """The edit's branch is removed; one of its name that another program creates before the next command stays."""
    switch = vars(commit)["switch_to_new"]

    def killed(*arguments: Any) -> None:
        if before == "switch":
            switch(*arguments)
        else:
            shell(repo, before)
        kill_itself()

    def act() -> None:
        vars(commit)["switch_to_new"] = killed
        edit(repo, shout(repo, 5), branch="topic")

    dies(act)
    shell(repo, after)
    recover_transactions(worktree(repo))
    assert bool(repo.git("branch", "--list", "topic")) is bool(after)
    assert not (repo.top / ".git/refs/heads/topic.lock").exists()
    assert repo.git("branch", "--show-current") == ("topic\n" if "switch" in after else "main\n")
    if before == "switch":
        shell(repo, "git switch -q -c other; git switch -q -")  # the reflog is still as git reads it
        assert repo.git("branch", "--show-current") == "main\n"
    assert repo.status() == "" and journals(repo) == []
