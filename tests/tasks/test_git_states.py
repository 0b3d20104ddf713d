"""Runs in repositories with an operation in progress, or that the user changes during the run."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from repoagent.errors import Busy, NothingDone, Refused, UsageError
from repoagent.git.transaction.journal import lock_path
from repoagent.git.transaction.results import Options
from repoagent.git.worktree import open_worktree
from repoagent.tasks.restore import restore_changes, uncommitted_files
from repoagent.tasks.runs.directory import RunRecord
from repoagent.tasks.worktree import close_linked, create_linked, linked_leftovers, reopen_linked
from tests.conftest import GitRepo
from tests.tasks.bare import DONE, EDIT, NAME, User, committed, diff, go, run_dir, then

COMMITTED = {"f.txt": "one\n"}
NO_COMMIT = Options(no_commit=True)
REMOVED = "the run's change is no longer in f.txt: something removed it"


@pytest.mark.parametrize("by", ["merge", "stash"])
def test_conflicts_are_refused_before_the_first_model_call(repo: GitRepo, by: str) -> None:
    repo.commit(**{"g.txt": "g\n"})
    if by == "merge":
        repo.git("checkout", "-q", "-b", "other")
        repo.commit(**{"g.txt": "theirs\n"})
        repo.git("checkout", "-q", "-")
    else:
        repo.write("g.txt", "stashed\n")
        repo.git("stash", "-q")
    repo.commit(**{"g.txt": "ours\n"})
    repo.git(*(("merge", "other") if by == "merge" else ("stash", "pop")), ok=False)
    reason = r"a merge is in progress.*--no-commit" if by == "merge" else r"merge conflicts in g\.txt"
    with pytest.raises(Refused, match=reason):
        go(repo)
    assert not run_dir(repo).conversation.exists()  # no run was started
    outcome, _, _ = go(repo, EDIT, DONE, commit=NO_COMMIT)
    assert (outcome.left, repo.read("f.txt")) == (("f.txt",), b"two\n")
    assert go(repo, "just words", mode="read-only", name="run-20260101-000000-aaaaaa")[0].kind == "answered"


def test_a_missing_committer_and_a_locked_index_are_refused_first(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repoagent.edit.checks.LOCK_SECONDS", 0.01)
    held = lock_path(open_worktree(repo.top))
    held.touch()
    with pytest.raises(Busy, match="another git command"):
        go(repo)
    held.unlink()
    repo.git("config", "user.useConfigOnly", "true")
    repo.git("config", "user.email", "")
    repo.git("config", "user.name", "")
    with pytest.raises(UsageError, match="git does not know your identity"):
        go(repo)
    assert not run_dir(repo).conversation.exists()  # no run was started


@pytest.mark.parametrize(
    ("command", "commit", "after", "note"),
    [
        (
            "commit -qam mine",
            Options(),
            "two\n",
            "the last commit already contains the run's change to f.txt",
        ),
        ("commit -qam mine", Options(), "two\nmine\n", ""),
        ("stash -q", Options(), "one\n", REMOVED),
        ("stash -q", NO_COMMIT, "one\n", REMOVED),
    ],
)
def test_a_change_that_the_user_committed_or_undid_is_not_left(
    repo: GitRepo, command: str, commit: Options, after: str, note: str
) -> None:
    act = then(lambda: (repo.git(*command.split()), repo.write("f.txt", after)))
    outcome, _, user = go(repo, EDIT, act, commit=commit)
    assert (outcome.kind, outcome.left, outcome.commits) == ("done", (), ())
    assert note in " ".join(user.sentences) and repo.read("f.txt") == after.encode()
    assert uncommitted_files(open_worktree(repo.top), run_dir(repo)) == ()


@pytest.mark.parametrize("all_of_it", [True, False])
def test_the_runs_change_when_staged_is_not_other_work(repo: GitRepo, all_of_it: bool) -> None:
    def stage() -> None:
        repo.git("add", "f.txt")
        if not all_of_it:
            repo.write("f.txt", "two\nthree\n")
            repo.git("add", "f.txt")
            repo.write("f.txt", "two\n")

    _, _, user = go(repo, EDIT, then(stage))
    assert ("other uncommitted work" in " ".join(user.sentences)) is not all_of_it
    assert repo.git("show", "HEAD:f.txt") == "two\n"
    assert repo.status() == ("" if all_of_it else "MM f.txt\n")


@pytest.mark.parametrize("rejected", [True, False])
def test_a_restore_unstages_the_change(repo: GitRepo, rejected: bool) -> None:
    """Other staged changes, also of the same file, stay staged."""
    repo.commit(**{"f.txt": "one\n2\n3\n4\n", "g.txt": "g\n"})
    repo.write("new.txt", "new\n")
    made = '<run>echo made > made.txt; mv g.txt h.txt</run><keep path="made.txt"/><keep path="h.txt"/>'
    edit = "```diff\n--- a/f.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n-one\n+two\n 2\n```\n"

    last = "<reject>no</reject>" if rejected else DONE
    stage = then(lambda: (repo.write("f.txt", "two\n2\n3\nmine\n"), repo.git("add", "-A")), last)
    with pytest.raises(NothingDone) if rejected else nullcontext():
        go(repo, edit, made, stage, commit=NO_COMMIT)
        restore_changes(open_worktree(repo.top), run_dir(repo))
    assert repo.status() == "M  f.txt\nA  new.txt\n"
    assert repo.git("show", ":f.txt") == "one\n2\n3\nmine\n"


@pytest.mark.parametrize(
    ("options", "rebase", "ends"),
    [
        (("rebase.autoStash=true", "sequence.editor=sed -i s/^pick/edit/"), ("-iq",), "--continue"),
        ((), ("-q", "--autostash", "-x", "false"), "--abort"),
    ],
)
def test_a_rebase_during_the_run(
    repo: GitRepo, options: tuple[str, ...], rebase: tuple[str, ...], ends: str
) -> None:
    """The commit is refused, and made after the rebase when the run is resumed."""
    repo.commit(**{"g.txt": "g\n"})
    repo.commit(**{"g.txt": "later\n"})
    user, words = User(), [word for option in options for word in ("-c", option)]
    with pytest.raises(Refused, match="a rebase is in progress"):
        go(repo, EDIT, then(lambda: repo.git(*words, "rebase", *rebase, "HEAD^", ok=False)), user=user)
    assert user.sentences == []
    assert uncommitted_files(open_worktree(repo.top), run_dir(repo)) == ()  # they are stashed
    repo.git("rebase", ends)
    outcome, _, _ = go(repo, prompt="")
    assert (outcome.kind, outcome.left, outcome.commits) == ("done", (), (repo.head(),))
    assert (repo.git("show", "HEAD:f.txt"), repo.status()) == ("two\n", "")


def test_another_branch_and_changes_of_a_hook_are_reported(repo: GitRepo) -> None:
    repo.hook("pre-commit", "echo formatted >> f.txt; git add f.txt\n")
    outcome, _, user = go(repo, EDIT, then(lambda: repo.git("checkout", "-q", "-b", "new")))
    assert "note: f.txt changed while hooks ran; the new version was committed" in user.sentences
    assert "the run's commit is on branch new" in " ".join(user.sentences)
    assert outcome.commits == (repo.head(),)


def test_the_index_is_locked_at_the_end(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a `git commit` with an open editor: it is reported, and committed when the run is resumed."""
    monkeypatch.setattr("repoagent.edit.commit.LOCK_SECONDS", 0.01)
    held = lock_path(open_worktree(repo.top))
    with pytest.raises(Busy, match=r"another git command(.|\n)*resume with"):
        go(repo, EDIT, then(held.touch))
    held.unlink()
    outcome, _, _ = go(repo, prompt="")
    assert (outcome.left, outcome.commits, repo.status()) == ((), (repo.head(),), "")


def test_a_refused_file_is_reported_with_the_reason(repo: GitRepo) -> None:
    repo.commit(**{"f.txt": "// Code generated by x. DO NOT EDIT.\none\n", ".gitignore": "ignored\n"})
    repo.write("ignored", "one\n")
    generated = diff("f.txt", "one", "two").replace("@@ -1 +1 @@", "@@ -2 +2 @@")
    others = [diff(path, "one", "two") for path in ("ignored", "no.txt")]
    _, model, _ = go(repo, generated, *others, "enough", "enough")
    assert "its header says that it is generated" in model.last_prompt
    assert "ignored may not be changed: git ignores it" in model.last_prompt
    assert "no.txt: no such file.\n" in model.last_prompt
    assert "none" not in model.last_prompt.split("no.txt: no such")[1]


def test_a_file_outside_of_the_sparse_checkout_is_reported(repo: GitRepo) -> None:
    repo.commit(**{"in/f.txt": "one\n", "out/g.txt": "one\n"})
    repo.git("sparse-checkout", "set", "in")
    _, model, _ = go(repo, diff("out/g.txt", "one", "two"), "enough", "enough")
    assert "out/g.txt is tracked, but excluded by the sparse checkout" in model.last_prompt


def test_keep_adds_all_new_files_of_a_folder_and_a_change_of_a_large_file_is_reported(repo: GitRepo) -> None:
    repo.write("big.bin", b"\0" * (5 << 20))
    repo.commit()
    made = "<run>mkdir -p d/e; echo 1 > d/g; echo 2 > d/e/h; echo 3 > da; printf x >> big.bin</run>"
    _, _, user = go(repo, made, '<keep path="d/"/>', DONE, DONE, mode="auto")
    assert committed(repo) == ["d/e/h", "d/g"]
    assert "the command changed big.bin, which is too large to track" in " ".join(user.sentences)


def test_a_work_tree_without_commits_is_removed_with_its_branch(repo: GitRepo) -> None:
    here = open_worktree(repo.top)
    with pytest.raises(Refused, match="already exists; choose another folder"):
        create_linked(here, "feature", repo.top / "src", NAME)
    place = create_linked(here, "feature", None, NAME)
    assert close_linked(here, place, "feature", done=False) == ""
    (place.top / "f.txt").write_text("two\n")
    assert f"uncommitted work is left in {place.top}" in close_linked(here, place, "feature")
    (place.top / "f.txt").write_text("one\n")
    assert close_linked(here, place, "feature") == "nothing was committed; deleted branch feature"
    assert (repo.git("branch", "--list", "feature"), place.top.exists()) == ("", False)


def test_resume_on_the_branch_of_a_missing_work_tree(repo: GitRepo) -> None:
    here = open_worktree(repo.top)
    place = create_linked(here, "feature", None, NAME)
    GitRepo(place.top).commit("more")
    assert "`git merge feature`" in close_linked(here, place, "feature")
    again = reopen_linked(here, str(place.top), "feature")
    assert again is not None and again.top.samefile(place.top)
    assert reopen_linked(here, str(here.top), "") is None  # it never had a branch
    shutil.rmtree(again.top)
    again = reopen_linked(here, str(place.top), "feature")
    assert again is not None and again.top.samefile(place.top)
    close_linked(here, again, "feature")
    repo.git("checkout", "-q", "feature")
    assert reopen_linked(here, str(place.top), "feature") is None  # the branch is checked out here


def test_a_missing_folder_that_the_user_chose_is_not_recreated(repo: GitRepo, tmp_path: Path) -> None:
    """Its disk may not be mounted."""
    here = open_worktree(repo.top)
    chosen = create_linked(here, "other", tmp_path / "linked", NAME).top
    shutil.rmtree(chosen)
    with pytest.raises(Refused, match="already registered"):
        reopen_linked(here, str(chosen), "other")


def test_a_removed_folder_of_a_deleted_run_does_not_keep_its_branch(repo: GitRepo, tmp_path: Path) -> None:
    here = open_worktree(repo.top)
    own = create_linked(here, "feature", None, NAME).top
    chosen = create_linked(here, "other", tmp_path / "linked", NAME).top
    shutil.rmtree(own)
    shutil.rmtree(chosen)  # as when its disk is not mounted
    record = RunRecord(worktree=str(own), branch="feature")
    assert "`git branch -d feature`" in linked_leftovers(here, record)
    repo.git("branch", "-d", "feature")
    with pytest.raises(Refused, match="already registered"):
        reopen_linked(here, str(chosen), "other")


def test_untracked_files_are_committed_whole_with_include_dirty(repo: GitRepo) -> None:
    (repo.top / "f.txt").unlink()
    repo.commit(**{"g.txt": "g\n"})
    repo.write("f.txt", "one\n")
    with pytest.raises(Refused, match="--include-dirty"):
        go(repo, EDIT, DONE)
    outcome, _, _ = go(repo, prompt="", commit=Options(include_dirty=True))
    assert committed(repo) == ["f.txt"]
    assert (outcome.turns, repo.status()) == (0, "")
