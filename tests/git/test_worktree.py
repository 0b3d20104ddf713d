"""Finding the work tree: missing ones first, then every kind; and the facts of its repository."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import UsageError
from repoagent.git.worktree import (
    Facts,
    current_branch,
    gather_facts,
    layout_of,
    open_at_head,
    open_worktree,
    operation_in_progress,
    relative_path,
)
from tests.conftest import GitRepo
from tests.git.edits import shell


def test_outside_a_work_tree(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    with pytest.raises(UsageError, match=r"bare repository.*worktree add"):
        open_worktree(tmp_path / "bare.git")
    with pytest.raises(UsageError, match="inside a git directory"):
        open_worktree(repo.top / ".git" / "refs")
    with pytest.raises(UsageError, match=r"not in a git work tree.*git init"):
        open_worktree(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        open_worktree(tmp_path / "none" / "none")
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    with pytest.raises(UsageError, match="not a git repository: /nowhere"):
        open_worktree(tmp_path)
    for name in ("two\nlines", "one"):
        (tmp_path / name).mkdir()
        GitRepo(tmp_path / name).git("init", "-q", "--object-format=sha256")
    with pytest.raises(UsageError, match="line break"):
        open_worktree(tmp_path / "two\nlines")
    assert open_worktree(tmp_path / "one").object_format == "sha256"
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    with pytest.raises(UsageError, match=r"repository: ./nowhere.; unset GIT_DIR$"):
        open_worktree(repo.top)


def test_no_git_and_an_old_git(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(UsageError, match=r"install git 2\.31"):
        open_worktree(repo.top)
    # what a git before 2.31 does with an option it does not know
    (tools / "git").write_text("#!/bin/sh\necho --path-format=absolute\necho false\nexit 0\n")
    (tools / "git").chmod(0o755)
    with pytest.raises(UsageError, match=r"too old.*2\.31"):
        open_worktree(repo.top)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user(repo: GitRepo) -> None:
    for path in (repo.top, repo.top / ".git"):
        os.chown(path, 12345, 12345)
    advice = r"dubious ownership.*run: git config --global --add safe\.directory"
    with pytest.raises(UsageError, match=advice):
        open_worktree(repo.top)


def test_from_a_subfolder_a_file_and_a_link_and_in_a_linked_work_tree(repo: GitRepo, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo.top)
    for start in (repo.top, repo.top / "src", repo.top / "src" / "app.py", tmp_path / "link" / "src"):
        worktree = open_worktree(start)
        assert worktree.top == worktree.main_top == repo.top
        assert worktree.git_dir == worktree.common_dir == repo.top / ".git"
        assert not worktree.is_linked
        assert layout_of(worktree).root == repo.top / ".repoagent"
        assert layout_of(worktree).private == repo.top / ".git" / "repoagent"
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    worktree = open_worktree(tmp_path / "linked")
    assert worktree.is_linked
    assert layout_of(worktree).root == repo.top / ".repoagent"
    assert layout_of(worktree).private == repo.top / ".git" / "worktrees" / "linked" / "repoagent"


@pytest.mark.parametrize("name", ["bare.git", ".git"])
def test_a_work_tree_of_a_bare_repository(repo: GitRepo, tmp_path: Path, name: str) -> None:
    bare = tmp_path / "project" / name
    repo.git("clone", "-q", "--bare", ".", str(bare))
    GitRepo(bare).git("worktree", "add", "-q", str(tmp_path / "project" / "linked"))
    worktree = open_worktree(tmp_path / "project" / "linked")
    assert worktree.main_top is None
    assert layout_of(worktree).root == bare / "repoagent"


def test_linked_to_a_submodule(repo: GitRepo, make_repo: Callable[[str], GitRepo], tmp_path: Path) -> None:
    other = make_repo("other")
    other.commit("one", x="1")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other.top), "sub")
    main, linked = GitRepo(repo.top / "sub"), tmp_path / "linked"
    main.git("worktree", "add", "-q", str(linked))
    assert open_worktree(main.top).top == main.top
    for top in (main.top, linked):
        assert layout_of(open_worktree(top)).root == main.top / ".repoagent"


def test_git_dir_in_every_folder(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(repo.top / ".git", tmp_path / "dotfiles")
    monkeypatch.chdir(repo.top)
    monkeypatch.setenv("GIT_DIR", "../dotfiles")
    worktree = open_worktree(Path.cwd())
    assert (worktree.top, worktree.git_dir) == (repo.top, tmp_path / "dotfiles")
    assert os.environ["GIT_DIR"] == str(tmp_path / "dotfiles")
    assert open_worktree(repo.top / "src") == worktree  # GIT_DIR alone would make src the top


def test_relative_paths(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worktree = open_worktree(repo.top)
    src = repo.top / "src"
    assert relative_path(worktree, "app.py", src) == "src/app.py"
    assert relative_path(worktree, "../new file.txt", src) == "new file.txt"
    assert relative_path(worktree, src / "app.py", tmp_path) == "src/app.py"
    assert relative_path(worktree, ".", src) == "src"
    assert relative_path(worktree, "..", src) == relative_path(worktree, ".", repo.top) == "."
    for outside in ("../../x", "/etc/passwd", tmp_path):
        with pytest.raises(UsageError, match=f"{re.escape(str(outside))} is outside the work tree"):
            relative_path(worktree, outside, src)
    # links of folders are resolved, but not the last
    (tmp_path / "link").symlink_to(repo.top)
    (repo.top / "lib").symlink_to("src")
    (repo.top / "app").symlink_to("src/app.py")
    assert relative_path(worktree, "link/a.txt", tmp_path) == "a.txt"
    assert relative_path(worktree, "lib/app.py", repo.top) == "src/app.py"
    assert relative_path(worktree, "app", repo.top) == "app"


@pytest.fixture
def fork(repo: GitRepo) -> GitRepo:
    """`main` and `other` with a conflict in a.txt; `other` has two commits that `main` lacks."""
    shell(repo, "git branch other; echo ours > a.txt; git commit -qam ours")
    shell(repo, "git switch -q other; echo theirs > a.txt; git commit -qam theirs")
    shell(repo, "echo b > b.txt; git add b.txt; git commit -qm 'second of theirs'; git switch -q main")
    return repo


def test_operations_in_progress(fork: GitRepo, tmp_path: Path) -> None:
    """`am`, the pause of a series, with reftable, bisect; each work tree has its own."""
    worktree, ours = open_worktree(fork.top), fork.head()
    fork.git("rebase", "other", ok=False)
    assert operation_in_progress(worktree) == "rebase"
    fork.git("rebase", "--abort")
    patch = fork.git("format-patch", "--stdout", "other~2..other~1")
    fork.git("am", stdin=patch.encode(), ok=False)
    assert operation_in_progress(worktree) == "am"
    fork.git("am", "--abort")
    fork.git("cherry-pick", "other~1", "other", ok=False)
    fork.git("checkout", "--theirs", "a.txt")
    fork.git("commit", "-qam", "picked")
    assert not (fork.top / ".git" / "CHERRY_PICK_HEAD").exists()
    assert operation_in_progress(worktree) == "cherry-pick"
    fork.git("cherry-pick", "--abort", ok=False)
    fork.git("cherry-pick", "--quit")
    assert operation_in_progress(worktree) is None
    fork.git("update-ref", "CHERRY_PICK_HEAD", "other")
    assert operation_in_progress(worktree) == "cherry-pick"
    fork.git("update-ref", "-d", "CHERRY_PICK_HEAD")
    (fork.top / ".git" / "reftable").mkdir()
    assert operation_in_progress(worktree) is None
    fork.git("branch", "CHERRY_PICK_HEAD")  # a reference without a file of its name
    assert operation_in_progress(worktree) == "cherry-pick"
    (fork.top / ".git" / "reftable").rmdir()
    fork.git("branch", "-q", "-D", "CHERRY_PICK_HEAD")
    fork.git("bisect", "start")
    assert operation_in_progress(worktree) == "bisect"
    shell(fork, f"git bisect reset; git reset -q --hard {ours}")
    fork.git("worktree", "add", "-q", str(tmp_path / "linked"))
    fork.git("merge", "other", ok=False)
    assert (operation_in_progress(worktree), gather_facts(worktree).unmerged) == ("merge", ("a.txt",))
    assert operation_in_progress(open_worktree(tmp_path / "linked")) is None


def test_an_unborn_branch_a_detached_head_and_a_linked_one(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("new")
    repo.git("symbolic-ref", "HEAD", "refs/heads/topic/größe")
    worktree = open_worktree(repo.top)
    assert open_at_head(repo.top) == (worktree, None)
    assert gather_facts(worktree) == Facts("topic/größe", (), (), None, ())
    first = repo.commit("first", a="1")
    assert current_branch(worktree) == "topic/größe"
    repo.git("switch", "-q", "--detach")
    assert (current_branch(worktree), open_at_head(repo.top)) == (None, (worktree, first))
    (repo.top / ".git" / "HEAD").unlink()
    (repo.top / ".git" / "HEAD").symlink_to("refs/heads/main")
    assert current_branch(worktree) == "main"


def test_subjects_without_merges(fork: GitRepo) -> None:
    latin = ("-c", "i18n.commitEncoding=latin1")
    fork.git(*latin, "commit", "-q", "--allow-empty", "-F", "-", stdin=b"gr\xf6\xdfe")
    fork.git("merge", "-q", "-s", "ours", "-m", "a merge", "other")
    gathered = gather_facts(open_worktree(fork.top))
    assert sorted(gathered.subjects) == ["first commit", "größe", "ours", "second of theirs", "theirs"]


def test_languages(repo: GitRepo) -> None:
    names = ("x.PY", "y.py", "z.tsx", ".gitignore", "src/.hidden", "Makefile", "a.b.xyz")
    for name in (*names, os.fsdecode(b"\xff.go")):
        repo.write(name, "")
    repo.git("add", "-A")
    languages = gather_facts(open_worktree(repo.top)).languages
    assert languages[0] == ("Python", 3)
    assert dict(languages) == {
        "Python": 3, "TypeScript": 1, "Go": 1, ".txt": 1, "Markdown": 1, ".xyz": 1,
    }  # fmt: skip
