"""An edit becomes one commit; whatever else the user has stays exactly as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repoagent.errors import Busy, NothingDone, Refused
from repoagent.git.file_writer import Moved
from repoagent.git.files import Content, FileChange
from repoagent.git.transaction.results import HookFailed, Options
from repoagent.git.transaction.transaction import Transaction
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, journals, new_file, staged, visible, worktree

LINES = "".join(f"line {n}\n" for n in range(1, 11))


def test_clean_file(repo: GitRepo) -> None:
    parent = repo.head()
    result = edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), message="Shout line 5\n\nBecause.")
    assert (result.parent, result.commit, result.branch) == (parent, repo.head(), "main")
    assert (
        repo.git("log", "-1", "--format=%B%an <%ae>")
        == "Shout line 5\n\nBecause.\nAda Tester <ada@example.com>\n"
    )
    assert repo.git("diff", "--stat", "HEAD^", "HEAD").split()[0] == "a.txt"
    assert repo.status() == ""
    assert journals(repo) == [] and not (repo.top / ".git/index.lock").exists()


def test_status_needs_no_second_look(repo: GitRepo) -> None:
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    size = [line for line in repo.git("ls-files", "--debug", "a.txt").splitlines() if "size:" in line]
    assert size[0].split()[1] == str(len(LINES))


def test_unstaged_work_elsewhere_in_the_file(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    before = repo.git("diff")
    with Transaction(worktree(repo), [change(repo, "a.txt", "line 2", "LINE 2")]) as transaction:
        assert transaction.plan.dirty == ("a.txt",)
        transaction.write()
        result = transaction.commit("edit\n")
    assert committed(repo, "a.txt") == LINES.replace("line 2", "LINE 2")
    assert repo.read("a.txt").decode() == LINES.replace("line 2", "LINE 2").replace("line 9", "mine 9")
    assert repo.git("diff").splitlines()[2:] == before.splitlines()[2:]
    assert repo.git("diff", "--cached") == ""
    assert "other uncommitted work in a.txt" in " ".join(result.notes)


def test_staged_work_elsewhere_in_the_file(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    repo.git("add", "a.txt")
    before = repo.git("diff", "--cached")
    edit(repo, change(repo, "a.txt", "line 2", "LINE 2"))
    assert committed(repo, "a.txt") == LINES.replace("line 2", "LINE 2")
    assert staged(repo, "a.txt") == LINES.replace("line 2", "LINE 2").replace("line 9", "mine 9")
    assert repo.git("diff", "--cached").splitlines()[2:] == before.splitlines()[2:]
    assert repo.git("diff") == ""


def test_staged_and_unstaged_work_in_the_file(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 9", "staged 9"))
    repo.git("add", "a.txt")
    repo.write("a.txt", LINES.replace("line 9", "staged 9").replace("line 6", "unstaged 6"))
    edit(repo, change(repo, "a.txt", "line 2", "LINE 2"))
    new = LINES.replace("line 2", "LINE 2")
    assert committed(repo, "a.txt") == new
    assert staged(repo, "a.txt") == new.replace("line 9", "staged 9")
    assert repo.read("a.txt").decode() == new.replace("line 9", "staged 9").replace("line 6", "unstaged 6")


@pytest.mark.parametrize("how", ["unstaged", "staged"])
def test_work_on_the_same_line_is_refused(repo: GitRepo, how: str) -> None:
    repo.write("a.txt", LINES.replace("line 4", "new\nmine 4"))
    if how == "staged":
        repo.git("add", "a.txt")
    before = visible(repo)
    with pytest.raises(Refused, match=r"uncommitted work in it on line 5 .*--include-dirty.*--no-commit"):
        edit(repo, change(repo, "a.txt", "mine 4", "LINE 4"))
    assert visible(repo) == before


def test_staged_work_that_was_undone_in_the_file_is_refused(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 4", "staged 4"))
    repo.git("add", "a.txt")
    repo.write("a.txt", LINES)
    before = visible(repo)
    with pytest.raises(Refused, match="compared with the index"):
        edit(repo, change(repo, "a.txt", "line 4", "LINE 4"))
    assert visible(repo) == before


def test_include_dirty_commits_the_file_whole(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 4", "mine 4"))
    repo.write("README.md", "mine\n")
    edit(repo, change(repo, "a.txt", "mine 4", "MINE 4"), include_dirty=True)
    assert committed(repo, "a.txt") == LINES.replace("line 4", "MINE 4")
    assert repo.status() == " M README.md\n"


def test_other_work_stays_as_it_is(repo: GitRepo) -> None:
    for name in ("staged", "deleted", "gone", "renamed", "both"):
        repo.write(f"{name}.txt", f"{name}\n" * 5)
    repo.commit("more")
    repo.write("staged.txt", "staged, changed\n")
    repo.git("add", "staged.txt")
    repo.git("rm", "-q", "deleted.txt")
    (repo.top / "gone.txt").unlink()
    repo.git("mv", "renamed.txt", "new-name.txt")
    repo.write("both.txt", "one\n")
    repo.git("add", "both.txt")
    repo.write("both.txt", "two\n")
    repo.write("intent.txt", "intended\n")
    repo.git("add", "-N", "intent.txt")
    repo.write("added.txt", "added\n")
    repo.git("add", "added.txt")
    repo.write("untracked.txt", "untracked\n")
    before = visible(repo)
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    after = visible(repo)
    for key in ("status", "unstaged", "staged"):
        assert after[key] == before[key]
    assert repo.git("show", "--name-status", "--format=", "HEAD") == "M\ta.txt\n"


def test_new_file_in_new_folders(repo: GitRepo) -> None:
    edit(repo, new_file("deep/er/new.sh", b"#!/bin/sh\n", "100755"))
    assert repo.git("ls-tree", "-r", "HEAD", "deep").startswith("100755 blob")
    assert os.access(repo.top / "deep/er/new.sh", os.X_OK)
    assert repo.status() == ""


def test_new_file_that_appears_meanwhile(repo: GitRepo) -> None:
    with (
        pytest.raises(Moved) as caught,
        Transaction(worktree(repo), [new_file("n/new.txt", b"ours\n")]) as transaction,
    ):
        repo.write("n/new.txt", "theirs\n")
        transaction.write()
    assert caught.value.current == {"n/new.txt": Content(b"theirs\n", "100644")}
    assert repo.read("n/new.txt") == b"theirs\n"
    assert journals(repo) == []


def test_new_file_where_a_deletion_is_not_committed(repo: GitRepo) -> None:
    (repo.top / "a.txt").unlink()
    before = visible(repo)
    with pytest.raises(Refused, match=r"separated|missing in the work tree"):
        edit(repo, new_file("a.txt", b"other\n"))
    assert visible(repo) == before


def test_new_file_below_a_deleted_one_is_refused(repo: GitRepo) -> None:
    (repo.top / "a.txt").unlink()
    before = visible(repo)
    with pytest.raises(Refused, match=r"would replace a\.txt"):
        edit(repo, new_file("a.txt/inner", b"x"))
    assert visible(repo) == before


def test_untracked_file_is_committed_whole_only_when_asked(repo: GitRepo) -> None:
    repo.write("notes.txt", LINES)
    before = visible(repo)
    with pytest.raises(Refused, match=r"notes\.txt is not tracked.*--include-dirty"):
        edit(repo, change(repo, "notes.txt", "line 2", "LINE 2"))
    assert visible(repo) == before
    edit(repo, change(repo, "notes.txt", "line 2", "LINE 2"), include_dirty=True)
    assert committed(repo, "notes.txt") == LINES.replace("line 2", "LINE 2")


def test_staged_new_file_is_refused(repo: GitRepo) -> None:
    repo.write("notes.txt", LINES)
    repo.git("add", "notes.txt")
    with pytest.raises(Refused, match=r"notes\.txt is staged but not in the last commit"):
        edit(repo, change(repo, "notes.txt", "line 2", "LINE 2"))


def test_deletion(repo: GitRepo) -> None:
    data = repo.read("src/app.py")
    edit(repo, FileChange("src/app.py", None, data, None, "100644", None))
    assert not (repo.top / "src").exists()
    assert repo.status() == "" and "src/app.py" not in repo.git("ls-files")


def test_deletion_of_a_file_with_other_work_is_refused(repo: GitRepo) -> None:
    repo.write("src/app.py", "mine\n")
    before = visible(repo)
    with pytest.raises(Refused, match="cannot separate"):
        edit(repo, FileChange("src/app.py", None, b"mine\n", None, "100644", None))
    assert visible(repo) == before


def test_rename_with_edit_and_other_work(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    now = repo.read("a.txt")
    edit(repo, FileChange("a.txt", "docs/b.txt", now, now.replace(b"line 2", b"LINE 2"), "100644", "100644"))
    assert repo.git("show", "-M", "--name-status", "--format=", "HEAD").split()[1:] == ["a.txt", "docs/b.txt"]
    assert committed(repo, "docs/b.txt") == LINES.replace("line 2", "LINE 2")
    assert repo.status() == " M docs/b.txt\n"
    assert "+mine 9" in repo.git("diff")


def test_mode_change(repo: GitRepo) -> None:
    data = repo.read("src/app.py")
    inode = (repo.top / "src/app.py").stat().st_ino
    edit(repo, FileChange("src/app.py", "src/app.py", data, data, "100644", "100755"))
    assert repo.git("ls-tree", "HEAD", "src/app.py").startswith("100755")
    assert os.access(repo.top / "src/app.py", os.X_OK) and (repo.top / "src/app.py").stat().st_ino == inode
    assert repo.status() == ""


def test_executable_stays_executable(repo: GitRepo) -> None:
    (repo.top / "src/app.py").chmod(0o750)
    repo.commit("executable")
    edit(repo, change(repo, "src/app.py", "hello", "hi"))
    assert (repo.top / "src/app.py").stat().st_mode & 0o777 == 0o750
    assert repo.status() == ""


def test_symbolic_link(repo: GitRepo) -> None:
    (repo.top / "link").symlink_to("a.txt")
    repo.commit("link")
    edit(repo, FileChange("link", "link", b"a.txt", b"README.md", "120000", "120000"))
    assert (repo.top / "link").readlink() == Path("README.md")
    assert repo.status() == "" and committed(repo, "link") == "README.md"


def test_several_files_are_one_commit(repo: GitRepo) -> None:
    changes = [
        change(repo, "a.txt", "line 5", "LINE 5"),
        change(repo, "src/app.py", "hello", "hi"),
        new_file("n", b""),
    ]
    edit(repo, *changes)
    assert repo.git("show", "--name-only", "--format=", "HEAD").split() == ["a.txt", "n", "src/app.py"]
    assert repo.status() == ""


def test_names_that_look_like_patterns(repo: GitRepo) -> None:
    names = ["a[b].py", "ab.py", "*", ":(top)x", " lead", "tab\there", "new\nline", os.fsdecode(b"\xff\xfe")]
    for name in names:
        repo.write(name, f"{name!a}\n")
    repo.commit("names")
    for name in names:
        edit(repo, change(repo, name, "\n", "!\n"))
        assert repo.status() == ""
        assert repo.git("show", "-z", "--name-only", "--format=", "HEAD").strip("\0\n") in (
            name,
            name.strip("\0\n"),
        )


def test_the_commit_has_it_already(repo: GitRepo) -> None:
    repo.write("a.txt", LINES.replace("line 5", "old 5"))
    before = visible(repo)
    with pytest.raises(NothingDone, match="already"):
        edit(repo, change(repo, "a.txt", "old 5", "line 5"))
    assert visible(repo) == before


def test_unborn_branch(make_repo) -> None:  # type: ignore[no-untyped-def]
    repo = make_repo("empty")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    result = edit(repo, new_file("first.txt", b"first\n"))
    assert result.parent is None
    assert repo.git("ls-tree", "-r", "--name-only", "HEAD") == "first.txt\n"
    assert repo.status() == "A  staged.txt\n"


def test_repository_without_an_index(make_repo) -> None:  # type: ignore[no-untyped-def]
    repo = make_repo("empty")
    edit(repo, new_file("first.txt", b"first\n"))
    assert repo.status() == ""


def test_detached_head(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "--detach")
    result = edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert result.branch is None and "detached" in " ".join(result.notes)
    assert repo.git("rev-parse", "main").strip() == result.parent


def test_bisect_in_progress(repo: GitRepo) -> None:
    repo.git("bisect", "start")
    assert edit(repo, change(repo, "a.txt", "line 5", "LINE 5")).commit == repo.head()


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "squash"])
def test_operation_in_progress(repo: GitRepo, operation: str) -> None:
    repo.write("README.md", "base\n")
    base = repo.commit("base")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("README.md", "side\n")
    side = repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "main\n")
    repo.commit("main")
    command = {
        "merge": ["merge", "side"],
        "rebase": ["rebase", "side"],
        "cherry-pick": ["cherry-pick", side],
        "revert": ["revert", "--no-edit", base],
        "squash": ["merge", "--squash", "side"],
    }[operation]
    repo.git(*command, ok=False)
    before = visible(repo)
    with pytest.raises(Refused, match=rf"a {operation} is in progress.*--no-commit"):
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert visible(repo) == before
    with Transaction(
        worktree(repo), [change(repo, "a.txt", "line 5", "LINE 5")], Options(no_commit=True)
    ) as edited:
        edited.write()
        edited.keep()
    assert repo.read("a.txt").decode() == LINES.replace("line 5", "LINE 5")
    assert repo.git("diff", "--cached", "--", "a.txt") == ""


def test_unmerged_entries_without_an_operation(repo: GitRepo) -> None:
    repo.write("README.md", "stashed\n")
    repo.git("stash", "-q")
    repo.write("README.md", "other\n")
    repo.commit("other")
    repo.git("stash", "pop", ok=False)
    before = visible(repo)
    with pytest.raises(Refused, match=r"README\.md has merge conflicts"):
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert visible(repo) == before


def test_index_lock_of_somebody_else(repo: GitRepo) -> None:
    lock = repo.top / ".git" / "index.lock"
    lock.touch()
    with pytest.raises(Busy, match=r"index\.lock exists"):
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert lock.read_bytes() == b"" and journals(repo) == []
    assert repo.read("a.txt").decode() == LINES


def test_nobody_commits_or_edits_in_between(repo: GitRepo) -> None:
    changes = [change(repo, "a.txt", "line 5", "LINE 5")]
    with Transaction(worktree(repo), changes) as transaction:
        transaction.write()
        refused = subprocess.run(
            ["git", "commit", "-qam", "theirs"], cwd=repo.top, capture_output=True, check=False
        )
        assert refused.returncode != 0 and b"index.lock" in refused.stderr
        with pytest.raises(Busy, match=f"process {os.getpid()}"):
            edit(repo, change(repo, "README.md", "# Sample", "# Other"))
        result = transaction.commit("edit\n")
    assert repo.head() == result.commit and repo.status() == ""


def test_head_moved_in_between_by_plumbing(repo: GitRepo) -> None:
    with (
        pytest.raises(Busy, match="program moved HEAD"),
        Transaction(worktree(repo), [change(repo, "a.txt", "line 5", "LINE 5")]) as transaction,
    ):
        transaction.write()
        other = repo.git("commit-tree", "-p", "HEAD", "-m", "other", "HEAD^{tree}").strip()
        repo.git("update-ref", "HEAD", other)
        transaction.commit("edit\n")
    assert repo.head() == other and repo.status() == ""


def test_leaving_without_commit_puts_everything_back(repo: GitRepo) -> None:
    repo.write("README.md", "mine\n")
    before = visible(repo)
    changes = [
        change(repo, "a.txt", "line 5", "LINE 5"),
        new_file("deep/er/new.txt", b"new\n"),
        FileChange("src/app.py", None, repo.read("src/app.py"), None, "100644", None),
    ]
    with Transaction(worktree(repo), changes) as transaction:
        transaction.write()
        assert repo.read("deep/er/new.txt") == b"new\n" and not (repo.top / "src").exists()
    assert visible(repo) == before
    assert not (repo.top / "deep").exists()


def test_permissions_stay_when_a_file_is_renamed_or_put_back(repo: GitRepo) -> None:
    for name in ("a.txt", "README.md"):
        (repo.top / name).chmod(0o600)
    lines, read_me = repo.read("a.txt"), repo.read("README.md")
    changes = [
        FileChange("a.txt", "b.txt", lines, lines, "100644", "100644"),
        FileChange("README.md", None, read_me, None, "100644", None),
    ]
    with Transaction(worktree(repo), changes) as transaction:
        transaction.write()
        assert (repo.top / "b.txt").stat().st_mode & 0o777 == 0o600
    for name in ("a.txt", "README.md"):
        assert (repo.top / name).stat().st_mode & 0o777 == 0o600


def test_a_file_saved_during_the_check_is_left(repo: GitRepo) -> None:
    changes = [change(repo, "a.txt", "line 5", "LINE 5"), change(repo, "src/app.py", "hello", "hi")]
    with Transaction(worktree(repo), changes) as transaction:
        transaction.write()
        repo.write("a.txt", "saved by the user\n")
    assert transaction.left == ("a.txt",)
    assert repo.read("a.txt") == b"saved by the user\n" and b"hello" in repo.read("src/app.py")
    kept = next((repo.top / ".git/repoagent/kept").iterdir())
    assert (kept / "old-0").read_bytes().decode() == LINES


def test_a_file_saved_during_the_check_is_not_committed(repo: GitRepo) -> None:
    with Transaction(worktree(repo), [change(repo, "a.txt", "line 5", "LINE 5")]) as transaction:
        transaction.write()
        repo.write("a.txt", repo.read("a.txt") + b"more\n")
        transaction.commit("edit\n")
    assert committed(repo, "a.txt") == LINES.replace("line 5", "LINE 5")
    assert "+more" in repo.git("diff")


def test_file_changed_before_the_write(repo: GitRepo) -> None:
    changes = [change(repo, "src/app.py", "hello", "hi"), change(repo, "a.txt", "line 5", "LINE 5")]
    with pytest.raises(Moved) as caught, Transaction(worktree(repo), changes) as transaction:
        repo.write("a.txt", "theirs\n")
        transaction.write()
    assert caught.value.current == {"a.txt": Content(b"theirs\n")}
    assert b"hello" in repo.read("src/app.py")
    assert repo.status() == " M a.txt\n"
    assert transaction.left == () and not (repo.top / ".git/repoagent/kept").exists()


def test_no_commit(repo: GitRepo) -> None:
    parent = repo.head()
    with Transaction(
        worktree(repo), [change(repo, "a.txt", "line 5", "LINE 5")], Options(no_commit=True)
    ) as edited:
        edited.write()
        assert not (repo.top / ".git/index.lock").exists()
        edited.keep()
    assert repo.head() == parent and repo.status() == " M a.txt\n"


def test_new_branch(repo: GitRepo) -> None:
    parent = repo.head()
    repo.write("README.md", "mine\n")
    result = edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), branch="topic/one")
    assert result.branch == "topic/one"
    assert repo.git("symbolic-ref", "--short", "HEAD") == "topic/one\n"
    assert repo.git("rev-parse", "main").strip() == parent
    assert repo.status() == " M README.md\n"


@pytest.mark.parametrize("name", ["main", "a..b", "-x", "main/x", "topic", "topic/one/two"])
def test_branch_that_can_not_be_made(repo: GitRepo, name: str) -> None:
    repo.git("branch", "topic/one")
    before = visible(repo)
    with pytest.raises(Refused, match="branch"):
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), branch=name)
    assert visible(repo) == before


@pytest.mark.parametrize("detached", [False, True])
def test_new_branch_is_gone_when_a_hook_fails(repo: GitRepo, detached: bool) -> None:
    if detached:
        repo.git("checkout", "-q", "--detach")
    repo.hook("pre-commit", "exit 1\n")
    before = visible(repo)
    with pytest.raises(HookFailed):
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), branch="topic")
    assert visible(repo) == before


def test_signoff_and_fixup(repo: GitRepo) -> None:
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), signoff=True)
    assert "Signed-off-by: Ada Tester" in repo.git("log", "-1", "--format=%B")
    edit(repo, change(repo, "a.txt", "line 6", "LINE 6"), fixup="HEAD", message="why")
    assert repo.git("log", "-1", "--format=%B").split("\n\n")[0] == "fixup! edit"


def test_message_keeps_lines_that_look_like_comments(repo: GitRepo) -> None:
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), message="Fix\n\n#12 is the issue\n---\nnot a diff")
    assert repo.git("log", "-1", "--format=%B").strip() == "Fix\n\n#12 is the issue\n---\nnot a diff"


def test_message_is_encoded_as_configured(repo: GitRepo) -> None:
    repo.git("config", "i18n.commitEncoding", "ISO-8859-1")
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), message="Größe")
    raw = subprocess.run(
        ["git", "cat-file", "commit", "HEAD"], cwd=repo.top, capture_output=True, check=True
    ).stdout
    assert b"encoding ISO-8859-1" in raw and raw.endswith(b"Gr\xf6\xdfe\n")
    with pytest.raises(Refused, match="ISO-8859-1"):
        edit(repo, change(repo, "a.txt", "line 6", "LINE 6"), message="日本")
    assert repo.status() == ""


def test_edit_message(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "1s/edit/edited by hand/" "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("GIT_EDITOR", str(editor))
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), message="edit\n\n#5 stays", edit_message=True)
    assert (
        repo.git("log", "-1", "--format=%B").strip()
        == "edit by hand".replace("edit", "edited") + "\n\n#5 stays"
    )


def test_foreign_index_file(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [change(repo, "a.txt", "line 5", "LINE 5")]
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.top / ".git" / "next-index-1.lock"))
    with pytest.raises(Refused, match="GIT_INDEX_FILE"), Transaction(worktree(repo), changes):
        pass
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    edit(repo, *changes)
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert repo.status() == ""


def test_linked_work_tree(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = GitRepo(tmp_path / "side")
    repo.write("a.txt", "mine\n")
    edit(side, change(side, "a.txt", "line 5", "LINE 5"))
    assert side.status() == "" and repo.status() == " M a.txt\n"
    assert (repo.top / ".git/worktrees/side/repoagent/edits.jsonl").exists()


def test_skip_worktree_and_assume_unchanged_stay(repo: GitRepo) -> None:
    repo.git("update-index", "--skip-worktree", "a.txt", "README.md")
    repo.git("update-index", "--assume-unchanged", "src/app.py")
    repo.write("a.txt", LINES.replace("line 9", "private 9"))
    bits = repo.git("ls-files", "-v")
    edit(repo, change(repo, "a.txt", "line 2", "LINE 2"), change(repo, "src/app.py", "hello", "hi"))
    assert repo.git("ls-files", "-v") == bits
    assert committed(repo, "a.txt") == LINES.replace("line 2", "LINE 2")
    assert b"private 9" in repo.read("a.txt") and repo.status() == ""


def test_sparse_checkout(repo: GitRepo) -> None:
    repo.git("sparse-checkout", "set", "--sparse-index", "docs", ok=False)
    assert not (repo.top / "src").exists()
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert not (repo.top / "src").exists() and repo.status() == ""
    assert "src/app.py" in repo.git("ls-tree", "-r", "--name-only", "HEAD")


def test_split_index(repo: GitRepo) -> None:
    repo.git("update-index", "--split-index")
    repo.write("README.md", "mine\n")
    repo.git("add", "README.md")
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert repo.status() == "M  README.md\n"
    repo.git("fsck", "--strict")


def test_sha256_repository(make_repo, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    top = tmp_path / "sha256"
    subprocess.run(["git", "init", "-q", "--object-format=sha256", str(top)], check=True)
    repo = GitRepo(top)
    repo.write("a.txt", LINES)
    repo.write("b.txt", "b\n")
    repo.commit("first")
    edit(
        repo,
        change(repo, "a.txt", "line 5", "LINE 5"),
        FileChange("b.txt", None, b"b\n", None, "100644", None),
    )
    assert repo.status() == "" and len(repo.head()) == 64


def test_signed_by_ssh(repo: GitRepo, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ada@example.com {key.with_suffix('.pub').read_text()}")
    for name, value in [
        ("gpg.format", "ssh"), ("user.signingkey", str(key)), ("commit.gpgsign", "true"),
        ("gpg.ssh.allowedSignersFile", str(allowed)),
    ]:  # fmt: skip
        repo.git("config", name, value)
    edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert repo.git("log", "-1", "--format=%G?") == "G\n"
    repo.hook("pre-commit", "git add -u\n")
    repo.write("README.md", "mine\n")
    result = edit(repo, change(repo, "a.txt", "line 6", "LINE 6"))
    assert result.taken_out == ("README.md",)
    assert repo.git("log", "-1", "--format=%G?") == "G\n"


def test_signing_that_fails_leaves_everything(repo: GitRepo) -> None:
    before = visible(repo)
    for name, value in [("gpg.format", "ssh"), ("user.signingkey", "/nowhere/key")]:
        repo.git("config", name, value)
    with pytest.raises(HookFailed, match="nowhere") as raised:
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), sign="")
    assert raised.value.by_git
    assert visible(repo) == before


def test_several_processes_edit_one_file(repo: GitRepo) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from repoagent.errors import Busy\n"
        "from repoagent.git.file_writer import Moved\n"
        "from tests.conftest import GitRepo\n"
        "from tests.git.edits import change, edit\n"
        "repo, number = GitRepo(Path(sys.argv[1])), sys.argv[2]\n"
        "while True:\n"
        "    try:\n"
        "        edit(repo, change(repo, 'a.txt', f'line {number}\\n', f'LINE {number}\\n'), message=number)\n"
        "        break\n"
        "    except (Busy, Moved):\n"
        "        time.sleep(0.01)\n"
    )
    root = Path(__file__).parents[2]
    numbers = ["2", "4", "6", "8"]
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(repo.top), n], cwd=root) for n in numbers
    ]
    assert [child.wait(timeout=60) for child in children] == [0] * len(numbers)
    expected = LINES
    for number in numbers:
        expected = expected.replace(f"line {number}\n", f"LINE {number}\n")
    assert repo.read("a.txt").decode() == expected == committed(repo, "a.txt")
    assert sorted(repo.git("log", "--format=%s").splitlines()) == [*numbers, "first commit"]
    assert repo.status() == "" and journals(repo) == []


def test_git_dir_in_the_environment(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repo.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repo.top))
    monkeypatch.chdir(tmp_path)
    changes = [change(repo, "a.txt", "line 5", "LINE 5")]
    with Transaction(open_worktree(tmp_path), changes) as transaction:
        transaction.write()
        transaction.commit("edit\n")
    assert repo.status() == "" and committed(repo, "a.txt") == LINES.replace("line 5", "LINE 5")


def test_the_lock_says_whose_it_is(repo: GitRepo) -> None:
    with Transaction(worktree(repo), [change(repo, "a.txt", "line 5", "LINE 5")]) as transaction:
        text = (repo.top / ".git/index.lock").read_text()
        assert transaction.id in text and str(os.getpid()) in text


def test_a_lock_that_is_not_ours_any_more_is_left(repo: GitRepo) -> None:
    lock = repo.top / ".git/index.lock"
    with Transaction(worktree(repo), [change(repo, "a.txt", "line 5", "LINE 5")]) as transaction:
        transaction.write()
        lock.unlink()
        lock.write_text("theirs")
    assert lock.read_text() == "theirs" and repo.read("a.txt").decode() == LINES


def test_editing_the_message_can_be_aborted(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\n: > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("GIT_EDITOR", str(editor))
    before = visible(repo)
    with pytest.raises(HookFailed) as raised:
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"), edit_message=True)
    assert raised.value.by_git and visible(repo) == before


def test_no_identity(repo: GitRepo, clean_environment: Path) -> None:
    (clean_environment / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    before = visible(repo)
    with pytest.raises(HookFailed, match=r"user\.email|tell me who you are") as raised:
        edit(repo, change(repo, "a.txt", "line 5", "LINE 5"))
    assert raised.value.by_git and visible(repo) == before
