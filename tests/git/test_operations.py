"""Edits during an operation of git: refused with the right message, or done without harm to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from repoagent.errors import Refused
from repoagent.git.transaction.results import Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import undo
from tests.conftest import GitRepo
from tests.git.edits import change, edit, keep, lines, new_file, shout, worktree
from tests.git.snapshot import changed, snapshot, untimed

LINES = lines()
OWN = {"file a.txt", "index a.txt", "status a.txt"}
IN_PROGRESS = {
    # what begins it, what it is called, what goes on with it, and the subject of the last commit then
    "merge": (["merge", "side"], "merge", ["commit", "-q", "--no-edit"], "Merge branch 'side'"),
    "rebase": (["rebase", "side"], "rebase", ["rebase", "--continue"], "main"),
    "rebase --apply": (["rebase", "--apply", "side"], "rebase", ["rebase", "--continue"], "main"),
    "rebase -i": (["rebase", "-i", "HEAD~2"], "rebase", ["rebase", "--continue"], "main"),
    "cherry-pick": (["cherry-pick", "side~1"], "cherry-pick", ["cherry-pick", "--continue"], "side 1"),
    "cherry-pick of two": (
        ["cherry-pick", "side~2..side"], "cherry-pick", ["cherry-pick", "--continue"], "side 2",
    ),
    "revert": (["revert", "--no-edit", "HEAD~1"], "revert", ["revert", "--continue"], 'Revert "base"'),
    "revert without a commit": (["revert", "-n", "HEAD"], "revert", ["revert", "--continue"], 'Revert "main"'),
    "am": (["am", "../side.patch"], "am", ["am", "--continue"], "side 1"),
    "squash": (["merge", "--squash", "side"], "squash", ["commit", "-q", "--no-edit"], "Squashed commit of the following:"),
    "stash pop": (["stash", "pop"], "merge conflicts", ["commit", "-q", "-m", "popped"], "popped"),
}  # fmt: skip


@pytest.fixture
def fork(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> GitRepo:
    """`main` and `side` both changed README.md from "base"; a stash too. `side` has one more commit."""
    monkeypatch.setenv("GIT_EDITOR", "true")
    monkeypatch.setenv("GIT_SEQUENCE_EDITOR", "sed -i '1s/^pick/edit/'")
    repo.write("README.md", "base\n")
    repo.commit("base")
    repo.write("README.md", "stashed\n")
    repo.git("stash", "-q")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("README.md", "side\n")
    repo.commit("side 1")
    repo.write("other.txt", "other\n")
    repo.commit("side 2")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "main\n")
    repo.commit("main")
    repo.top.with_name("side.patch").write_text(repo.git("format-patch", "--stdout", "-1", "side~1"))
    return repo


@pytest.mark.soak
@pytest.mark.parametrize("operation", IN_PROGRESS)
def test_no_commit_in_an_operation_but_the_file_and_then_it_goes_on(fork: GitRepo, operation: str) -> None:
    begin, name, go_on, subject = IN_PROGRESS[operation]
    fork.git(*begin, ok=False)
    before = snapshot(fork)
    the_edit = shout(fork, 5)
    with pytest.raises(Refused, match=rf"{name}.*--no-commit"):
        edit(fork, the_edit)
    assert changed(before, snapshot(fork)) == set()
    keep(fork, the_edit)
    assert changed(before, snapshot(fork)) == {"file a.txt", "status a.txt"}
    undo(worktree(fork))
    assert changed(untimed(before), untimed(snapshot(fork))) == set()
    fork.write("a.txt", LINES.replace("line 5", "LINE 5"))
    if "README.md" in fork.git("ls-files", "-u"):
        fork.write("README.md", "resolved\n")
        fork.git("add", "README.md")
    fork.git("add", "a.txt")
    fork.git(*go_on)
    assert fork.git("log", "-1", "--format=%s").strip() == subject
    assert fork.git("status", "--porcelain") == "" and "LINE 5" in fork.git("show", "HEAD:a.txt")
    begun = {"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer"}
    assert not begun & {path.name for path in (fork.top / ".git").iterdir()}


@pytest.mark.soak
@pytest.mark.parametrize("operation", ["merge", "rebase", "am"])
def test_undo_of_a_commit_waits_for_an_operation(fork: GitRepo, operation: str) -> None:
    edit(fork, shout(fork, 5))
    fork.git(*IN_PROGRESS[operation][0], ok=False)
    before = snapshot(fork)
    with pytest.raises(Refused, match=f"an? {operation} is in progress") as caught:
        undo(worktree(fork))
    assert "--no-commit" not in str(caught.value)  # undo has no such option
    assert changed(before, snapshot(fork)) == set()


def test_a_message_that_waits_for_the_users_commit_waits_on(fork: GitRepo) -> None:
    """`git cherry-pick -n` leaves the picked message for the user's next `git commit`."""
    fork.git("cherry-pick", "-n", "side")
    waiting = fork.top / ".git/MERGE_MSG"
    assert waiting.exists()
    before = snapshot(fork)
    edit(fork, shout(fork, 5))
    assert changed(before, snapshot(fork)) == {"file a.txt", "index a.txt", "ref refs/heads/main"}
    fork.git("commit", "-q", "--no-edit")
    assert fork.git("log", "--format=%s", "-2") == "side 2\nedit\n" and fork.status() == ""


@pytest.mark.soak
@pytest.mark.parametrize("detach", [True, False])
def test_bisect(fork: GitRepo, detach: bool) -> None:
    fork.git("bisect", "start", *(["HEAD", "HEAD~2"] if detach else []))
    before = snapshot(fork)
    made = edit(fork, shout(fork, 5))
    assert ("a bisect is in progress" in " ".join(made.notes)) and (made.branch is None) == detach
    where = "HEAD" if detach else "ref refs/heads/main"
    assert changed(before, snapshot(fork)) == {"file a.txt", "index a.txt", where}
    undo(worktree(fork))
    assert changed(untimed(before), untimed(snapshot(fork))) == set()
    fork.git("bisect", "reset")


def test_detached_head(fork: GitRepo) -> None:
    fork.git("checkout", "-q", "--detach", "HEAD~1")
    before = snapshot(fork)
    made = edit(fork, shout(fork, 5))
    assert "HEAD is detached" in " ".join(made.notes) and fork.head() == made.commit
    assert changed(before, snapshot(fork)) == {"file a.txt", "index a.txt", "HEAD"}
    undo(worktree(fork))
    assert changed(untimed(before), untimed(snapshot(fork))) == set()


@pytest.mark.parametrize("staged", [False, True])
def test_a_repository_without_a_commit(make_repo: Callable[[str], GitRepo], staged: bool) -> None:
    repo = make_repo("empty")
    repo.write("mine.txt", "mine\n")
    repo.write("staged.txt", "staged\n")
    if staged:
        repo.git("add", "staged.txt")
    repo.git("config", "commit.verbose", "true")
    before = snapshot(repo)
    with pytest.raises(Refused, match=r"mine\.txt is not tracked.*--include-dirty.*--no-commit"):
        edit(repo, change(repo, "mine.txt", "mine", "MINE"))
    if staged:
        with pytest.raises(Refused, match=r"staged\.txt is staged but not in the last commit"):
            edit(repo, change(repo, "staged.txt", "staged", "STAGED"))
    assert changed(before, snapshot(repo)) == set()
    made = edit(repo, new_file("x/new.txt", b"new\n"))
    after = {"folder x", "file x/new.txt", "index x/new.txt", "ref refs/heads/main"}
    assert made.parent is None and changed(before, snapshot(repo)) == after
    assert repo.git("ls-tree", "-r", "--name-only", "HEAD") == "x/new.txt\n"
    undo(worktree(repo))
    assert changed(before, snapshot(repo)) == set()


def test_a_replaced_head_is_what_git_shows_of_it(repo: GitRepo) -> None:
    other = repo.git("commit-tree", "-m", "replacement", "HEAD^{tree}").strip()
    repo.git("replace", repo.head(), other)
    before = snapshot(repo)
    edit(repo, shout(repo, 2))
    assert changed(before, snapshot(repo)) == {"file a.txt", "index a.txt", "ref refs/heads/main"}
    assert repo.git("diff-tree", "-r", "--name-only", "HEAD^", "HEAD") == "a.txt\n"
    undo(worktree(repo))
    assert changed(untimed(before), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("kind", ["untracked", "ignored"])
def test_a_file_where_the_edit_would_make_one(repo: GitRepo, kind: str) -> None:
    repo.commit("ignore", **{".gitignore": "*.log\n"})
    path = "new.log" if kind == "ignored" else "new.txt"
    repo.write(path, "mine\n")
    before = snapshot(repo)
    for options in (Options(), Options(no_commit=True), Options(include_dirty=True)):
        with (
            pytest.raises(Refused, match=f"{path} changed on disk and was left unchanged"),
            Transaction(worktree(repo), [new_file(path, b"new\n")], options) as transaction,
        ):
            transaction.write()
        assert changed(before, snapshot(repo)) == set()
