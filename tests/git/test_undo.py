"""Undo and redo move only the content of the edit, whatever became of its commit and its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import NothingDone, Refused
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.undo import redo, undo
from repoagent.git.undo_log import list_edits
from tests.conftest import GitRepo
from tests.git.edits import (
    change,
    committed,
    delete,
    edit,
    keep,
    lines,
    new_file,
    shell,
    shout,
    staged,
    undo_and_redo,
    worktree,
)
from tests.git.snapshot import as_before, changed, snapshot, untouched, visible

ID = "0a1b2c3d4e5f"


def edit_line_2(repo: GitRepo) -> None:
    with Transaction(worktree(repo), [shout(repo, 2)], edit_id=ID) as transaction:
        transaction.write()
        transaction.commit(f"edit\n\nRepoagent-Edit: {ID}\n")


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
    with pytest.raises(Refused, match="already been undone"):
        undo(worktree(repo), name)
    redo(worktree(repo), name)
    assert committed(repo, "a.txt") == lines({2: "LINE 2", 8: "mine 8"})
    assert repo.git("log", "-1", "--format=%s") == "Shout\n"
    with pytest.raises(Refused, match="not been undone"):
        redo(worktree(repo), name)
    assert undo(worktree(repo), name).moved


@pytest.mark.parametrize(
    ("script", "moved"),
    [
        ("git branch other", False),
        ("git tag v1", False),
        ("git update-ref refs/remotes/origin/main HEAD", False),
        ("git worktree add -q --detach ../other", False),
        ("git worktree add -q --detach ../on; git -C ../on commit -q --allow-empty -m top", False),
        ("git worktree add -q -b other ../on; git -C ../on commit -q --allow-empty -m top", False),
        ("echo mine > README.md; git stash -q", True),
    ],
    ids=["branch", "tag", "remote", "worktree", "worktree on top", "branch on top", "stash"],
)  # fmt: skip
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


def test_undo_unstages_an_edit_without_a_commit(repo: GitRepo) -> None:
    repo.write("b.txt", lines())
    repo.git("add", "b.txt")
    repo.write("a.txt", lines({9: "mine 9"}))
    before = visible(repo)
    app = repo.read("src/app.py")
    moved = FileChange("src/app.py", "src/moved.py", Content(app), Content(app))
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
    shell(repo, "git checkout -qb side; echo side > side.txt; git add .; git commit -qm side")
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--no-commit", "--no-ff", "side")
    before = visible(repo)
    keep(repo, change(repo, "side.txt", "side", "SIDE"))
    repo.git("add", "side.txt")
    undo(worktree(repo))
    assert visible(repo) == before and (repo.top / ".git" / "MERGE_HEAD").exists()


def test_after_a_reset_on_the_same_branch(repo: GitRepo) -> None:
    edit(repo, shout(repo, 2))
    first = list_edits(worktree(repo))[-1].id
    edit(repo, shout(repo, 9))
    repo.git("reset", "-q", "--hard", "HEAD^")
    last = f"no longer in the history of main,.*last edit in that history: `repoagent undo {first}`"
    with pytest.raises(Refused, match=last):
        undo(worktree(repo))
    repo.git("checkout", "-q", "--orphan", "other")
    with pytest.raises(Refused, match="not in the history of other, so there is nothing to undo"):
        undo(worktree(repo))


def test_flags_of_a_deleted_or_renamed_file_return(repo: GitRepo) -> None:
    repo.git("update-index", "--skip-worktree", "src/app.py")
    repo.git("update-index", "--assume-unchanged", "README.md")
    before, app = snapshot(repo), Content(repo.read("src/app.py"))
    rename = FileChange("src/app.py", "lib/main.py", app, app)
    edit(repo, delete(repo, "README.md"), rename)
    undo_and_redo(repo, before, snapshot(repo), moved=True)


LINES = lines()


@pytest.mark.parametrize("make", [edit, keep])
def test_back_and_forth_is_byte_for_byte(repo: GitRepo, make: Callable[..., object]) -> None:
    repo.write("a.txt", lines({10: "unstaged 10"}))
    app = repo.read("src/app.py")
    moved = FileChange("src/app.py", "lib/main.py", Content(app), Content(app + b"# more\n", "100755"))
    moments = [snapshot(repo)]
    for one in (shout(repo, 5), new_file("made/new.txt", b"new\n"), delete(repo, "README.md"), moved):
        make(repo, one)
        moments.append(snapshot(repo))
    no_rename = delete(repo, "lib/main.py")
    make(repo, new_file("x", b"x"), shout(repo, 3), no_rename, new_file("y", b"y"))
    moments.append(snapshot(repo))
    for _ in range(2):
        for moment in reversed(moments[:-1]):
            undo(worktree(repo))
            as_before(repo, moment)
        with pytest.raises(NothingDone, match="no edit to undo"):
            undo(worktree(repo))
        assert all(edit.undone for edit in list_edits(worktree(repo)))
        assert repo.git("for-each-ref", "--format=%(refname)") == "refs/heads/main\n"
        assert repo.git("log", "--all", "--format=%s") == "first commit\n"
        assert repo.git("fsck", "--strict", "--no-dangling") == ""
        for moment in moments[1:]:
            redo(worktree(repo))
            as_before(repo, moment)
        with pytest.raises(NothingDone, match="no edit to redo"):
            redo(worktree(repo))


LINE_9 = "sed -i 's/line 9/later/' ?.txt"
STAGED = "sed -i 's/line 6/later/' ?.txt; git add -A"
LATER = {
    "unstaged": (LINE_9, " M a.txt\n"),
    "staged": (STAGED, "M  a.txt\n"),
    "both": (f"{STAGED}; {LINE_9}", "MM a.txt\n"),
    "committed": (f"{STAGED}; git commit -qm later", ""),
    "committed and unstaged": (f"{STAGED}; git commit -qm later; {LINE_9}", " M a.txt\n"),
}


@pytest.mark.parametrize(
    ("later", "path"),
    [*((later, "a.txt") for later in LATER), ("both", "b.txt"), ("committed and unstaged", "b.txt")],
)
def test_later_work_in_the_file_stays(repo: GitRepo, later: str, path: str) -> None:
    """Also if the edit has renamed it to `path`."""
    data = repo.read("a.txt")
    edit(repo, FileChange("a.txt", path, Content(data), Content(data.replace(b"line 2", b"LINE 2"))))
    script, status = LATER[later]
    shell(repo, script)
    with_later, after = repo.read(path), snapshot(repo)
    moved = undo(worktree(repo)).moved
    assert moved == ("commit" not in script)
    assert repo.read("a.txt") == with_later.replace(b"LINE 2", b"line 2")
    assert "LINE 2" not in committed(repo, "a.txt") + staged(repo, "a.txt")
    assert repo.status() == status
    redo(worktree(repo))
    assert repo.read(path) == with_later and repo.status() == status.replace("a.txt", path)
    if moved:
        as_before(repo, after)


LATER_2 = "sed -i 's/LINE 2/later 2/' a.txt"
SAME_LINES = r"a\.txt has later changes on the same lines \(line 2"
REFUSED = {
    # what is done after the edit, which is on the branch topic, and why it is not undone
    "overlapping": (LATER_2, Refused, SAME_LINES),
    "overlapping, staged": (f"{LATER_2}; git add a.txt", Refused, SAME_LINES),
    "overlapping, committed": (f"{LATER_2}; git commit -qam later", Refused, SAME_LINES),
    "overlapping, only staged": (
        f"{LATER_2}; git add a.txt; git show HEAD:a.txt > a.txt", Refused, r"a\.txt has other staged changes on line 2",
    ),
    "undone by hand": (
        "git revert --no-edit HEAD", NothingDone, "the undo would not change any file; choose another edit",
    ),
    "on another branch": (
        "git checkout -q main", Refused, r"not in this branch's history: switch to its branch \(topic\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_undo_changes_nothing(repo: GitRepo, case: str) -> None:
    script, error, match = REFUSED[case]
    repo.git("checkout", "-q", "-b", "topic")
    edit_line_2(repo)
    shell(repo, script)
    before = snapshot(repo)
    with pytest.raises(error, match=match):
        undo(worktree(repo))
    untouched(repo, before)


def test_redo_after_new_commits_and_gc(repo: GitRepo) -> None:
    edit_line_2(repo)
    undo(worktree(repo))
    shell(repo, "sed -i 's/line 9/later 9/' a.txt; git commit -qam later")
    shell(repo, "git reflog expire --expire=now --all; git gc -q --prune=now")
    shell(repo, "sed -i 's/line 6/unstaged 6/' a.txt")
    assert not redo(worktree(repo)).moved
    assert committed(repo, "a.txt") == LINES.replace("line 9", "later 9").replace("line 2", "LINE 2")
    assert repo.status() == " M a.txt\n" and b"unstaged 6" in repo.read("a.txt")
    assert undo(worktree(repo)).moved and committed(repo, "a.txt") == LINES.replace("line 9", "later 9")


def test_a_rename_whose_places_have_changed(repo: GitRepo) -> None:
    """It is undone if the user has already moved the file back."""
    before, data = snapshot(repo), repo.read("a.txt")
    edit(repo, FileChange("a.txt", "b.txt", Content(data), Content(data)))
    for script, match in (
        ("cp b.txt a.txt; git add a.txt; rm a.txt", r"a\.txt has other staged changes"),
        ("git rm -q --cached a.txt; cp b.txt a.txt", r"a\.txt exists again"),
        ("rm ?.txt", r"b\.txt was deleted"),
    ):
        shell(repo, script)
        after = snapshot(repo)
        with pytest.raises(Refused, match=match):
            undo(worktree(repo))
        untouched(repo, after)
    repo.write("a.txt", data)
    undo(worktree(repo))
    as_before(repo, before)


REBASE = (
    "git checkout -q -b upstream HEAD^; git commit -q --allow-empty -m upstream; git rebase -q upstream main; "
    "git branch -q -D upstream"
)
PICK = "; git checkout -q -b picked HEAD^; git cherry-pick main; git branch -q -D main"
AMEND = f"git commit -q --amend -m 'better words' -m 'Repoagent-Edit: {ID}'"


@pytest.mark.parametrize("script", [AMEND, REBASE, REBASE + PICK], ids=["amended", "rebased", "picked"])
def test_a_rewritten_commit_is_undone_and_redone(repo: GitRepo, script: str) -> None:
    edit_line_2(repo)
    shell(repo, script)
    after = snapshot(repo)
    assert undo(worktree(repo)).moved and repo.read("a.txt").decode() == LINES
    assert redo(worktree(repo)).moved
    as_before(repo, after)


@pytest.mark.parametrize("message", ["--no-edit", f"-m 'Topic (#1)' -m '* edit' -m 'Repoagent-Edit: {ID}'"])
def test_a_squash_merged_edit_is_taken_out_of_it(repo: GitRepo, message: str) -> None:
    repo.git("checkout", "-q", "-b", "topic")
    edit_line_2(repo)
    repo.commit("more of it", **{"topic.txt": "topic\n"})
    shell(repo, "git checkout -q main; git merge -q --squash topic; git branch -q -D topic")
    shell(repo, f"git commit -q {message}")
    squashed = repo.head()
    assert not undo(worktree(repo)).moved
    assert f"This reverts edit {ID} in commit {squashed}." in repo.git("log", "-1", "--format=%b")
    assert committed(repo, "a.txt") == LINES and committed(repo, "topic.txt") == "topic\n"
    assert repo.git("rev-parse", "HEAD^").strip() == squashed and repo.status() == ""


def test_in_a_linked_work_tree(repo: GitRepo, tmp_path: Path) -> None:
    linked = GitRepo(tmp_path / "linked")
    repo.git("worktree", "add", "-q", "-b", "topic", str(linked.top))
    main, before = snapshot(repo), snapshot(linked)
    edit_line_2(linked)
    after = snapshot(linked)
    with pytest.raises(NothingDone):
        undo(worktree(repo))  # it is not an edit of this work tree
    undo_and_redo(linked, before, after, moved=True)
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
