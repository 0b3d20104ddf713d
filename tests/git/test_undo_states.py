"""Undo and redo, back and forth, after any changes to the edit's commit and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.files import FileChange
from repoagent.git.transaction.results import HookFailed, Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.undo_log import list_edits
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, lines, new_file, shout, staged, worktree
from tests.git.line_two import ID, edit_line_2, replace
from tests.git.snapshot import changed, snapshot, untimed

pytestmark = pytest.mark.soak

LINES = lines()
Act = Callable[[GitRepo], object]


def other_edits(repo: GitRepo) -> list[FileChange]:
    app = repo.read("src/app.py")
    return [
        shout(repo, 5),
        new_file("made/new.txt", b"new\n"),
        FileChange("README.md", None, repo.read("README.md"), None, "100644", None),
        FileChange("src/app.py", "lib/main.py", app, app + b"# more\n", "100644", "100755"),
    ]


@pytest.mark.parametrize("no_commit", [False, True])
def test_back_and_forth_is_byte_for_byte(repo: GitRepo, no_commit: bool) -> None:
    replace(repo, "line 10", "unstaged 10")
    moments = [snapshot(repo)]
    for one in other_edits(repo):
        with Transaction(worktree(repo), [one], Options(no_commit=no_commit)) as transaction:
            transaction.write()
            if no_commit:
                transaction.keep()
            else:
                transaction.commit(f"edit {one.name}\n")
        moments.append(snapshot(repo))
    for _ in range(2):
        for moment in reversed(moments[:-1]):
            undo(worktree(repo))
            assert changed(untimed(moment), untimed(snapshot(repo))) == set()
        with pytest.raises(NothingDone):
            undo(worktree(repo))
        for moment in moments[1:]:
            redo(worktree(repo))
            assert changed(untimed(moment), untimed(snapshot(repo))) == set()
        with pytest.raises(NothingDone):
            redo(worktree(repo))


LATER = {
    # which lines are changed, and what is done with them
    "unstaged": ("9", " M a.txt\n"),
    "staged": ("9 add", "M  a.txt\n"),
    "both": ("6 add 9", "MM a.txt\n"),
    "committed": ("9 commit", ""),
    "committed and unstaged": ("6 commit 9", " M a.txt\n"),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("path", ["a.txt", "b.txt"], ids=["modified", "renamed"])
def test_later_work_in_the_file_stays(repo: GitRepo, later: str, path: str) -> None:
    data = repo.read("a.txt")
    edit(repo, FileChange("a.txt", path, data, data.replace(b"line 2", b"LINE 2"), "100644", "100644"))
    acts, status = LATER[later]
    for act in acts.split():
        if act.isdigit():
            repo.write(path, repo.read(path).replace(f"line {act}".encode(), b"later"))
        else:
            repo.git(*(["add", "-A"] if act == "add" else ["commit", "-qam", "later"]))
    with_later, after = repo.read(path), snapshot(repo)
    moved = undo(worktree(repo)).moved
    assert moved == ("commit" not in acts)
    assert repo.read("a.txt") == with_later.replace(b"LINE 2", b"line 2")
    assert "LINE 2" not in committed(repo, "a.txt") + staged(repo, "a.txt")
    assert repo.status() == status
    redo(worktree(repo))
    assert repo.read(path) == with_later and repo.status() == status.replace("a.txt", path)
    if moved:
        assert changed(untimed(after), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("how", ["unstaged", "staged", "committed"])
def test_overlapping_later_work_is_refused_and_kept(repo: GitRepo, how: str) -> None:
    edit_line_2(repo)
    replace(repo, "LINE 2", "later 2")
    if how != "unstaged":
        repo.git("add", "a.txt")
    if how == "committed":
        repo.commit("later")
    before = snapshot(repo)
    with pytest.raises(Refused, match=r"a\.txt has later changes on the same lines \(line 2"):
        undo(worktree(repo))
    assert changed(before, snapshot(repo)) == set()


def test_overlapping_staged_work_that_is_not_in_the_file(repo: GitRepo) -> None:
    edit_line_2(repo)
    replace(repo, "LINE 2", "later 2")
    repo.git("add", "a.txt")
    replace(repo, "later 2", "LINE 2")
    before = snapshot(repo)
    with pytest.raises(Refused, match=r"a\.txt has other staged changes on line 2"):
        undo(worktree(repo))
    assert changed(before, snapshot(repo)) == set()


def test_after_a_push_it_is_reverted_and_can_be_made_again(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("init", "-q", "--bare", str(tmp_path / "remote"))
    repo.git("remote", "add", "origin", str(tmp_path / "remote"))
    edit_line_2(repo)
    pushed = repo.head()
    repo.git("push", "-q", "-u", "origin", "main")
    assert not undo(worktree(repo)).moved
    assert repo.git("log", "-1", "--format=%B") == (
        f'Revert "edit"\n\nThis reverts commit {pushed}.\n\nRepoagent-Undo: {ID}\n\n'
    )
    repo.git("push", "-q")  # no force needed
    assert not redo(worktree(repo)).moved and committed(repo, "a.txt") == LINES.replace("line 2", "LINE 2")
    repo.git("push", "-q")


def test_twice_is_once(repo: GitRepo) -> None:
    edit_line_2(repo)
    undo(worktree(repo), ID)
    before = snapshot(repo)
    with pytest.raises(Refused, match="already undone"):
        undo(worktree(repo), ID)
    redo(worktree(repo), ID)
    with pytest.raises(Refused, match="not undone"):
        redo(worktree(repo), ID)
    undo(worktree(repo), ID)
    assert changed(untimed(before), untimed(snapshot(repo))) == set()


def test_an_edit_undone_by_hand(repo: GitRepo) -> None:
    edit_line_2(repo)
    repo.git("revert", "--no-edit", "HEAD")
    before = snapshot(repo)
    with pytest.raises(
        NothingDone, match="nothing to commit: the files are already in that state; choose another edit"
    ):
        undo(worktree(repo))
    assert changed(before, snapshot(repo)) == set()


def test_redo_after_new_commits_and_gc(repo: GitRepo) -> None:
    edit_line_2(repo)
    undo(worktree(repo))
    replace(repo, "line 9", "later 9")
    repo.commit("later")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    replace(repo, "line 6", "unstaged 6")
    assert not redo(worktree(repo)).moved
    assert committed(repo, "a.txt") == LINES.replace("line 9", "later 9").replace("line 2", "LINE 2")
    assert repo.status() == " M a.txt\n" and b"unstaged 6" in repo.read("a.txt")
    assert undo(worktree(repo)).moved and committed(repo, "a.txt") == LINES.replace("line 9", "later 9")


def test_a_note_on_the_commit_is_there_again(repo: GitRepo) -> None:
    repo.git("config", "notes.rewriteRef", "refs/notes/*")
    edit_line_2(repo)
    repo.git("notes", "add", "-m", "reviewed")
    assert undo(worktree(repo)).moved and redo(worktree(repo)).moved
    assert repo.git("notes", "show") == "reviewed\n"


@pytest.mark.parametrize("what", ["undo", "redo"])
def test_a_failing_hook_leaves_everything(repo: GitRepo, what: str) -> None:
    edit_line_2(repo)
    repo.commit("later", **{"b.txt": "b\n"})
    if what == "redo":
        undo(worktree(repo))
    repo.hook("pre-commit", "exit 1\n")
    before = snapshot(repo)
    with pytest.raises(HookFailed):
        (undo if what == "undo" else redo)(worktree(repo))
    assert changed(untimed(before), untimed(snapshot(repo))) == set()
    assert list_edits(worktree(repo))[0].undone == (what == "redo")


def test_a_file_committed_whole_is_staged_again(repo: GitRepo) -> None:
    replace(repo, "line 2", "staged 2")
    repo.git("add", "a.txt")
    replace(repo, "staged 2", "unstaged 2")
    before = snapshot(repo)
    edit(repo, change(repo, "a.txt", "unstaged 2", "LINE 2"), include_dirty=True)
    after = snapshot(repo)
    for _ in range(2):
        undo(open_worktree(repo.top))
        assert changed(untimed(before), untimed(snapshot(repo))) == set()
        redo(open_worktree(repo.top))
        assert changed(untimed(after), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("kind", ["taken", "gone", "by hand"])
def test_a_rename_whose_places_have_changed(repo: GitRepo, kind: str) -> None:
    before, data = snapshot(repo), repo.read("a.txt")
    edit(repo, FileChange("a.txt", "b.txt", data, data, "100644", "100644"))
    if kind == "taken":
        repo.write("a.txt", "another\n")
    elif kind == "gone":
        (repo.top / "b.txt").unlink()
    else:
        (repo.top / "b.txt").rename(repo.top / "a.txt")
        undo(worktree(repo))
        assert changed(untimed(before), untimed(snapshot(repo))) == set()
        return
    after = snapshot(repo)
    with pytest.raises(Refused, match=r"a\.txt exists again" if kind == "taken" else r"b\.txt was deleted"):
        undo(worktree(repo))
    assert changed(after, snapshot(repo)) == set()
