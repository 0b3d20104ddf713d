"""Undo and redo by moving the branch or by a revert, of only the content of the edit."""

from __future__ import annotations

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.files import FileChange
from repoagent.git.transaction.results import HookFailed
from repoagent.git.undo import redo, undo
from repoagent.git.undo_log import list_edits
from tests.conftest import GitRepo
from tests.git.edits import (
    change,
    committed,
    edit,
    keep,
    lines,
    new_file,
    shell,
    shout,
    staged,
    visible,
    worktree,
)
from tests.git.line_two import edit_line_2


def test_nothing_to_undo(repo: GitRepo) -> None:
    with pytest.raises(NothingDone, match="no edit to undo"):
        undo(worktree(repo))
    with pytest.raises(NothingDone, match="no edit to redo"):
        redo(worktree(repo))


def test_undo_and_redo_of_the_tip(repo: GitRepo) -> None:
    """Including modes, renames and deletions; the repository shows no trace of an undone edit."""
    before = visible(repo)
    app, text = repo.read("src/app.py"), repo.read("a.txt")
    made = edit(
        repo,
        FileChange("src/app.py", "src/app.py", app, app, "100644", "100755"),
        FileChange("a.txt", "moved/a.txt", text, text + b"more\n", "100644", "100644"),
        FileChange("README.md", None, repo.read("README.md"), None, "100644", None),
        new_file("n/new", b"new\n"),
    )
    after = visible(repo)
    result = undo(worktree(repo))
    assert result.moved and result.commit == made.parent
    assert visible(repo) == before and not (repo.top / "n").exists()
    assert list_edits(worktree(repo))[0].undone
    assert repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
    assert repo.git("log", "--all", "--format=%s") == "first commit\n"
    assert repo.git("fsck", "--strict", "--no-dangling") == ""
    assert redo(worktree(repo)).commit == made.commit
    assert visible(repo) == after
    assert undo(worktree(repo)).moved
    assert visible(repo) == before


def test_undo_keeps_later_and_other_work(repo: GitRepo) -> None:
    repo.write("README.md", "staged\n")
    repo.git("add", "README.md")
    edit(repo, shout(repo, 2))
    repo.write("a.txt", lines({2: "LINE 2", 6: "staged 6"}))
    repo.git("add", "a.txt")
    repo.write("a.txt", lines({2: "LINE 2", 6: "staged 6", 9: "later 9"}))
    undo(worktree(repo))
    assert staged(repo, "a.txt") == lines({6: "staged 6"})
    assert repo.read("a.txt").decode() == lines({6: "staged 6", 9: "later 9"})
    assert repo.status() == "M  README.md\nMM a.txt\n"
    redo(worktree(repo))
    assert repo.read("a.txt").startswith(b"line 1\nLINE 2") and repo.status() == "M  README.md\nMM a.txt\n"


def test_later_work_on_the_same_line_is_refused(repo: GitRepo) -> None:
    edit(repo, shout(repo, 5))
    repo.write("a.txt", lines({5: "later 5"}))
    before = visible(repo)
    with pytest.raises(Refused, match="later changes on the same lines"):
        undo(worktree(repo))
    assert visible(repo) == before


def test_several_are_undone_one_after_the_other(repo: GitRepo) -> None:
    start = visible(repo)
    first = edit(repo, shout(repo, 2))
    second = edit(repo, shout(repo, 8))
    assert undo(worktree(repo)).commit == first.commit
    assert undo(worktree(repo)).commit == first.parent
    assert visible(repo) == start
    assert redo(worktree(repo)).commit == first.commit
    assert redo(worktree(repo)).commit == second.commit


def test_an_edit_below_the_tip_is_reverted(repo: GitRepo) -> None:
    edit(repo, shout(repo, 2), message="Shout")
    name = list_edits(worktree(repo))[0].id
    repo.write("a.txt", lines({2: "LINE 2", 8: "mine 8"}))
    tip = repo.commit("mine")
    repo.write("a.txt", lines({2: "LINE 2", 8: "mine 8", 10: "unstaged 10"}))
    result = undo(worktree(repo), name)
    assert not result.moved and result.commit == repo.head()
    assert repo.git("rev-parse", "HEAD^").strip() == tip
    assert repo.git("log", "-1", "--format=%s") == 'Revert "Shout"\n'
    assert committed(repo, "a.txt") == lines({8: "mine 8"})
    assert "unstaged 10" in repo.git("diff")
    redo(worktree(repo), name)
    assert committed(repo, "a.txt") == lines({2: "LINE 2", 8: "mine 8"})
    assert repo.git("log", "-1", "--format=%s") == "Shout\n"
    assert undo(worktree(repo), name).moved


@pytest.mark.parametrize(
    ("script", "moved"),
    [
        ("git branch other", False),
        ("git tag v1", False),
        ("git update-ref refs/remotes/origin/main HEAD", False),
        ("git worktree add -q --detach ../other", False),
        ("echo mine > README.md; git stash -q", True),
    ],
    ids=["branch", "tag", "remote", "worktree", "stash"],
)
def test_a_commit_that_others_have_is_reverted(repo: GitRepo, script: str, moved: bool) -> None:
    made = edit(repo, shout(repo, 2))
    shell(repo, script)
    assert undo(worktree(repo)).moved == moved and repo.status() == ""
    assert moved or repo.git("rev-parse", "HEAD^").strip() == made.commit


def test_after_an_amend_with_more_in_it_only_the_edit_is_reverted(repo: GitRepo) -> None:
    edit_line_2(repo)
    repo.write("README.md", "mine\n")
    repo.git("commit", "-qa", "--amend", "--no-edit")
    assert not undo(worktree(repo)).moved
    assert committed(repo, "a.txt") == lines() and repo.status() == ""
    assert committed(repo, "README.md") == "mine\n"


def test_undo_of_the_first_commit(make_repo) -> None:  # type: ignore[no-untyped-def]
    repo = make_repo("empty")
    made = edit(repo, new_file("first.txt", b"first\n"))
    assert undo(worktree(repo)).commit is None
    assert repo.git("rev-parse", "HEAD", ok=False) == "HEAD\n" and repo.status() == ""
    assert redo(worktree(repo)).commit == made.commit


def test_undo_without_a_commit(repo: GitRepo) -> None:
    repo.write("a.txt", lines({9: "mine 9"}))
    keep(repo, shout(repo, 2))
    head = repo.head()
    undo(worktree(repo))
    assert repo.read("a.txt").decode() == lines({9: "mine 9"}) and repo.head() == head
    redo(worktree(repo))
    assert b"LINE 2" in repo.read("a.txt")


def test_undo_unstages_an_edit_without_a_commit(repo: GitRepo) -> None:
    repo.write("b.txt", lines())
    repo.git("add", "b.txt")
    repo.write("a.txt", lines({9: "mine 9"}))
    before = visible(repo)
    app = repo.read("src/app.py")
    moved = FileChange("src/app.py", "src/moved.py", app, app, "100644", "100644")
    keep(repo, shout(repo, 2), new_file("new.txt", b"new\n"), new_file("intended.txt", b"new\n"), moved)
    repo.git("add", "-N", "intended.txt")
    repo.git("add", "new.txt", "src")
    blob = repo.git("hash-object", "-w", "--stdin", stdin=lines({2: "LINE 2"}).encode()).strip()
    repo.git("update-index", "--cacheinfo", f"100644,{blob},a.txt")  # as `git add -p` does
    undo(worktree(repo))
    assert visible(repo) == before


def test_undo_without_a_commit_leaves_what_was_committed_or_is_another_change(repo: GitRepo) -> None:
    keep(repo, shout(repo, 2))
    repo.write("a.txt", lines({2: "MINE 2"}))
    repo.git("add", "a.txt")
    repo.write("a.txt", lines({2: "LINE 2"}))
    index = repo.git("ls-files", "-s")
    undo(worktree(repo))
    assert repo.git("ls-files", "-s") == index and b"line 2\n" in repo.read("a.txt")
    repo.git("reset", "-q")
    keep(repo, shout(repo, 2))
    repo.git("commit", "-qam", "by hand")
    repo.write("a.txt", lines({2: "LINE 2", 9: "mine 9"}))
    repo.git("add", "a.txt")
    undo(worktree(repo))
    assert "LINE 2" in staged(repo, "a.txt") and b"line 2" in repo.read("a.txt")


def test_undo_leaves_a_change_staged_in_a_merge(repo: GitRepo) -> None:
    shell(
        repo, "git checkout -qb side; echo side > side.txt; git add .; git commit -qm side; git checkout -q -"
    )
    repo.git("merge", "-q", "--no-commit", "--no-ff", "side")
    before = visible(repo)
    keep(repo, change(repo, "side.txt", "side", "SIDE"))
    repo.git("add", "side.txt")
    undo(worktree(repo))
    assert visible(repo) == before and (repo.top / ".git" / "MERGE_HEAD").exists()


def test_undo_includes_the_changes_of_hooks(repo: GitRepo) -> None:
    repo.hook("pre-commit", "sed -i 's/  */ /g' a.txt; wc -l a.txt > COUNT; git add COUNT a.txt\n")
    before = visible(repo)
    edit(repo, change(repo, "a.txt", "line 5", "LINE    5"))
    undo(worktree(repo))
    assert visible(repo) == before


def test_redo_makes_a_commit_again_when_the_old_one_is_gone(repo: GitRepo) -> None:
    edit(repo, shout(repo, 5), message="Größe")
    undo(worktree(repo))
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert not redo(worktree(repo)).moved and repo.git("log", "-1", "--format=%s") == "Größe\n"


def test_a_revert_that_a_hook_refuses_leaves_all(repo: GitRepo) -> None:
    edit(repo, shout(repo, 5))
    repo.git("branch", "other")
    repo.hook("pre-commit", "exit 1\n")
    before = visible(repo)
    with pytest.raises(HookFailed):
        undo(worktree(repo))
    assert visible(repo) == before and not list_edits(worktree(repo))[0].undone


def test_after_a_reset_on_the_same_branch(repo: GitRepo) -> None:
    edit(repo, shout(repo, 2))
    first = list_edits(worktree(repo))[-1].id
    edit(repo, shout(repo, 9))
    repo.git("reset", "-q", "--hard", "HEAD^")
    last = f"history of main any more.*last edit that is: `repoagent undo {first}`"
    with pytest.raises(Refused, match=last):
        undo(worktree(repo))
    repo.git("checkout", "-q", "--orphan", "other")
    with pytest.raises(Refused, match="not in the history of other, so there is nothing to undo"):
        undo(worktree(repo))
