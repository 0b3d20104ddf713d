"""A kill or a failure at any step leaves an edit that the next command completes or undoes, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
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
from tests.git.edits import (
    committed,
    edit,
    journals,
    keep,
    lines,
    recovered,
    shout,
    visible,
    wait_for,
    worktree,
)

LINES = lines()
ROOT = Path(__file__).parents[2]


def prepare(repo: GitRepo) -> None:
    repo.write("b.txt", "b\n")
    repo.commit("more")
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    repo.write("b.txt", "unstaged\n")
    repo.write("untracked.txt", "untracked\n")


def killed_at_every_step(repo: GitRepo, action: str, stride: int) -> None:
    command = [sys.executable, "-m", "tests.git.killed", str(repo.top.parent), action, str(stride)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert [step for step in steps if step["wrong"]] == []
    assert {step["made"] for step in steps} == {True, False}
    assert any("rolled back" in said for step in steps for said in step["said"])
    assert any("complete" in said for step in steps for said in step["said"])


@pytest.fixture
def template(make_repo) -> GitRepo:  # type: ignore[no-untyped-def]
    repo: GitRepo = make_repo("template")
    repo.write("a.txt", LINES)
    repo.write("README.md", "read me\n")
    repo.write("src/app.py", "app\n")
    repo.commit("first")
    return repo


def test_killed_while_editing(template: GitRepo) -> None:
    prepare(template)
    killed_at_every_step(template, "edit", 11)


@pytest.mark.soak
def test_killed_while_unstaging_uncommitted_changes(template: GitRepo) -> None:
    keep(template, shout(template, 2))
    template.git("add", "a.txt")
    killed_at_every_step(template, "undo", 1)


@pytest.mark.soak
@pytest.mark.parametrize("action", ["edit", "undo"])
@pytest.mark.parametrize(
    "hook", ["", "git add -u; git checkout -q b.txt; sed -i 's/  */ /' a.txt; git add a.txt"]
)
def test_killed_at_each_single_step(template: GitRepo, action: str, hook: str) -> None:
    if action == "undo":
        edit(template, shout(template, 2))
    prepare(template)
    if action == "undo":
        template.git("reset", "-q", "--soft", "HEAD^")
    template.hook("pre-commit", hook + "\n")
    killed_at_every_step(template, action, 1)


def run_in_child(repo: GitRepo, code: str) -> subprocess.Popen[bytes]:
    """Make the edit of line 5 in a separate process; `code` is run between writing and committing."""
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from tests.conftest import GitRepo\n"
        "from tests.git.edits import wait_for, change, worktree\n"
        "from repoagent.git.transaction.transaction import Transaction\n"
        f"repo = GitRepo(Path({str(repo.top)!r}))\n"
        "with Transaction(worktree(repo), [change(repo, 'a.txt', 'line 5', 'LINE 5')]) as transaction:\n"
        "    transaction.write()\n"
        f"    {code}\n"
        "    transaction.commit('edit')\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_nothing_to_recover(repo: GitRepo) -> None:
    assert recover(worktree(repo)) == []
    edit(repo, shout(repo, 5))
    assert recover(worktree(repo)) == []


def test_a_living_owner_is_left_alone(repo: GitRepo) -> None:
    with Transaction(worktree(repo), [shout(repo, 5)]) as transaction:
        transaction.write()
        done = subprocess.run(
            [sys.executable, "-c", RECOVER, str(repo.top)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "[]\n"
        transaction.commit("edit\n")


RECOVER = """
import sys
from pathlib import Path
from repoagent.git.transaction.finish import recover
from repoagent.git.worktree import open_worktree
print(recover(open_worktree(Path(sys.argv[1]))))
"""


def test_a_file_saved_after_the_kill_is_left(repo: GitRepo) -> None:
    run_in_child(repo, "os.kill(os.getpid(), 9)").communicate()
    repo.write("a.txt", "saved since\n")
    (said,) = recover(worktree(repo))
    assert "a.txt changed" in said
    assert repo.read("a.txt") == b"saved since\n" and not (repo.top / ".git/index.lock").exists()
    (kept,) = (repo.top / ".git/repoagent/kept").iterdir()
    assert (kept / "old-0").read_text() == LINES and (kept / "new-0").read_text() == LINES.replace(
        "line 5", "LINE 5"
    )
    assert journals(repo) == []


def test_a_file_torn_in_place_is_put_back(repo: GitRepo) -> None:
    os.link(repo.top / "a.txt", repo.top / "b.txt")
    run_in_child(repo, "os.kill(os.getpid(), 9)").communicate()
    half = LINES.replace("line 5", "LINE 5").encode()[:30] + LINES.encode()[30:]
    (repo.top / "a.txt").write_bytes(half)
    recover(worktree(repo))
    assert repo.read("a.txt").decode() == repo.read("b.txt").decode() == LINES


def test_another_program_removed_the_lock_and_continued(repo: GitRepo) -> None:
    repo.hook("post-commit", "kill -9 $(cat pid)\n")
    run_in_child(repo, "(repo.top / 'pid').write_text(str(os.getpid()))").communicate()
    (repo.top / ".git/hooks/post-commit").unlink()
    (repo.top / ".git/index.lock").unlink()
    repo.write("README.md", "mine\n")
    repo.write("a.txt", repo.read("a.txt").replace(b"line 9", b"mine 9"))
    repo.git("add", "README.md", "a.txt")
    repo.git("commit", "-qm", "mine")
    (said,) = recovered(repo)
    assert "is complete" in said
    assert repo.status() == "?? pid\n"
    assert committed(repo, "a.txt") == LINES.replace("line 5", "LINE 5").replace("line 9", "mine 9")


def test_another_process_holds_the_lock(repo: GitRepo) -> None:
    run_in_child(repo, "os.kill(os.getpid(), 9)").communicate()
    lock = repo.top / ".git/index.lock"
    lock.unlink()
    lock.write_bytes(b"another git")
    (said,) = recover(worktree(repo))
    assert "rolled back" in said and lock.read_bytes() == b"another git"
    assert repo.read("a.txt").decode() == LINES


@pytest.mark.parametrize("hook", ["pre-commit", "post-commit"])
def test_killed_by_a_hook_while_git_goes_on(repo: GitRepo, hook: str) -> None:
    repo.write("README.md", "mine\n")
    repo.hook(hook, "kill -9 $(cat pid); sleep 0.5\n")
    child = run_in_child(repo, "(repo.top / 'pid').write_text(str(os.getpid()))")
    child.wait()
    assert recover(worktree(repo)) == []  # git is still at it
    said = recovered(repo)
    child.communicate()
    assert "was committed as" in said[0]
    assert repo.status() == " M README.md\n?? pid\n"
    assert committed(repo, "a.txt") == LINES.replace("line 5", "LINE 5")


@pytest.mark.parametrize("where", ["body", "hook", "hook, twice"])
def test_interrupted(repo: GitRepo, where: str) -> None:
    before = visible(repo)
    repo.hook("pre-commit", "touch .git/started; sleep 5\n")
    child = run_in_child(
        repo, "(repo.top / '.git/started').touch(); time.sleep(5)" if where == "body" else "pass"
    )
    wait_for(repo.top / ".git/started")
    for _ in range(1 + where.count("twice")):
        child.send_signal(signal.SIGINT)
        time.sleep(0.01)
    _, errors = child.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    assert recover(worktree(repo)) == []
    assert visible(repo) == before


def test_interrupted_after_the_commit(repo: GitRepo) -> None:
    repo.hook("post-commit", "touch .git/started; sleep 1\n")
    child = run_in_child(repo, "pass")
    wait_for(repo.top / ".git/started")
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    assert committed(repo, "a.txt") == LINES.replace("line 5", "LINE 5") and repo.status() == ""
    assert journals(repo) == [] and recover(worktree(repo)) == []


def test_a_broken_journal_is_kept_and_named(repo: GitRepo) -> None:
    run_in_child(repo, "os.kill(os.getpid(), 9)").communicate()
    (folder,) = (repo.top / ".git/repoagent/journal").iterdir()
    (folder / "journal.json").write_text("{")
    (said,) = recover(worktree(repo))
    assert "cannot read the journal" in said and str(repo.top / ".git/repoagent/kept") in said
    assert journals(repo) == []


def test_saved_files_are_left_and_lost_ones_restored(repo: GitRepo) -> None:
    repo.write("README.md", "mine\n")
    repo.write("src/app.py", "mine too\n")
    repo.hook("pre-commit", "git checkout -q -- README.md src/app.py; kill -9 $(cat pid)\nexit 1\n")
    run_in_child(repo, "(repo.top / 'pid').write_text(str(os.getpid()))").communicate()
    repo.write("src/app.py", "saved hours later\n")
    (said,) = recovered(repo)
    assert "src/app.py changed" in said
    assert repo.read("README.md") == b"mine\n" and repo.read("src/app.py") == b"saved hours later\n"
    (kept,) = (repo.top / ".git/repoagent/kept").iterdir()
    assert b"mine too\n" in {path.read_bytes() for path in kept.glob("found-*")}
    assert repo.read("a.txt").decode() == LINES


@pytest.mark.parametrize("on_top", [0, 2])
@pytest.mark.parametrize("moved", [True, False])
def test_killed_while_the_branch_moves_before_another_commit(repo: GitRepo, moved: bool, on_top: int) -> None:
    """An undo that had moved the branch, and whose lock was removed, is complete even if HEAD has moved on."""
    before = repo.head()
    edit(repo, shout(repo, 5))
    child = subprocess.Popen(
        [sys.executable, "-c", MOVING.format(at="archive" if moved else "git"), str(repo.top)], cwd=ROOT
    )
    assert child.wait() == -9
    (repo.top / ".git/index.lock").unlink(missing_ok=True)
    for number in range(on_top):
        repo.git("commit", "-q", "--allow-empty", "--only", "-m", f"mine {number}")
    (said,) = recover(worktree(repo))
    assert ("complete" in said) == moved
    assert repo.status() == "" and journals(repo) == []
    assert (b"LINE 5" in repo.read("a.txt")) == (not moved)
    assert repo.git("rev-list", "--count", "HEAD").strip() == str(on_top + (1 if moved else 2))
    assert repo.git("merge-base", "HEAD", before).strip() == before


MOVING = """
import os, sys
from pathlib import Path
from repoagent.git import undo as move; from repoagent.git.undo import undo
from repoagent.git.worktree import open_worktree
move.{at} = lambda *_, **__: os.kill(os.getpid(), 9)
undo(open_worktree(Path(sys.argv[1])))
"""


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
