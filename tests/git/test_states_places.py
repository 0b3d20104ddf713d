"""Edits that create, replace or delete more than one file, and the files around them."""

from __future__ import annotations

import os
import shutil

import pytest

from repoagent.errors import Refused
from repoagent.git.files import FileChange
from repoagent.git.undo import redo, undo
from tests.conftest import GitRepo
from tests.git.edits import change, committed, edit, new_file, shout, worktree
from tests.git.snapshot import changed, snapshot, untimed
from tests.git.states import PATH

pytestmark = pytest.mark.soak

MADE = {
    "a new file": lambda repo: new_file("new/dir/x.txt", b"x\n"),
    "an empty file": lambda repo: new_file("empty.txt", b""),
    "an executable": lambda repo: new_file("run.sh", b"#!/bin/sh\n", "100755"),
    "a new link": lambda repo: new_file("new_link", b"sub/a.txt", "120000"),
    "another target": lambda repo: FileChange(
        "link.txt", "link.txt", b"sub/a.txt", b"README", "120000", "120000"
    ),
    "a link for a file": lambda repo: FileChange(PATH, PATH, repo.read(PATH), b"x", "100644", "120000"),
    "a file for a link": lambda repo: FileChange(
        "link.txt", "link.txt", b"sub/a.txt", b"x\n", "120000", "100644"
    ),
    "no link": lambda repo: FileChange("link.txt", None, b"sub/a.txt", None, "120000", None),
    "the last of a folder": lambda repo: FileChange(PATH, None, repo.read(PATH), None, "100644", None),
    "a folder for a file": lambda repo: FileChange(
        "link.txt", "link.txt/x", b"sub/a.txt", b"sub/a.txt", "120000", "120000"
    ),
}


@pytest.mark.parametrize("kind", [kind for kind in MADE if kind != "a folder for a file"])
def test_several_files_amid_other_work(busy: GitRepo, kind: str) -> None:
    the_change = MADE[kind](busy)
    paths = {the_change.path, the_change.old_path} - {None}
    before = snapshot(busy)
    edit(busy, the_change)
    after = snapshot(busy)
    allowed = {f"{what} {path}" for path in paths for what in ("file", "index")} | {"ref refs/heads/main"}
    assert changed(before, after) <= allowed | {"folder new", "folder new/dir", "folder sub"}
    assert set(busy.git("diff-tree", "-r", "--name-only", "HEAD^", "HEAD").split()) == paths
    undo(worktree(busy))
    assert changed(untimed(before), untimed(snapshot(busy))) == set()
    redo(worktree(busy))
    assert changed(untimed(after), untimed(snapshot(busy))) == set()


@pytest.mark.parametrize("is_staged", [True, False])
@pytest.mark.parametrize("to", ["a folder", "a file"])
def test_the_path_of_a_file_removed_by_the_user(repo: GitRepo, is_staged: bool, to: str) -> None:
    """A folder in place of a file of git, or the reverse: only if that removal is in the commit."""
    gone, new = ("a.txt", "a.txt/inner.txt") if to == "a folder" else ("src/app.py", "src")
    if gone == "a.txt":
        (repo.top / gone).unlink()
    else:
        shutil.rmtree(repo.top / "src")
    if is_staged:
        repo.git("add", "-A")
    before = snapshot(repo)
    with pytest.raises(Refused, match=f"{new} would replace {gone}, which git still tracks"):
        edit(repo, new_file(new, b"new\n"))
    assert changed(before, snapshot(repo)) == set()
    made = edit(repo, new_file(new, b"new\n"), include_dirty=True)
    assert set(repo.git("diff-tree", "-r", "--name-only", "HEAD^", "HEAD").split()) == {new, gone}
    assert repo.status() == "" and made.taken_out == ()
    undo(worktree(repo))
    assert changed(untimed(before), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("state", ["staged", "unstaged"])
def test_a_file_that_became_a_link(repo: GitRepo, state: str) -> None:
    (repo.top / "a.txt").unlink()
    (repo.top / "a.txt").symlink_to("README.md")
    if state == "staged":
        repo.git("add", "a.txt")
    before = snapshot(repo)
    the_change = FileChange("a.txt", "a.txt", b"README.md", b"src/app.py", "120000", "120000")
    with pytest.raises(Refused, match=r"cannot separate .* from uncommitted work in it.*--include-dirty"):
        edit(repo, the_change)
    assert changed(before, snapshot(repo)) == set()
    edit(repo, the_change, include_dirty=True)
    assert repo.git("ls-tree", "HEAD", "a.txt").startswith("120000") and repo.status() == ""
    undo(worktree(repo))
    assert changed(untimed(before), untimed(snapshot(repo))) == set()


@pytest.mark.parametrize("kind", ["untracked", "intent to add", "staged"])
def test_a_file_that_is_in_no_commit(repo: GitRepo, kind: str) -> None:
    repo.write("new.txt", "one\ntwo\n")
    if kind != "untracked":
        repo.git("add", *(["-N"] if kind == "intent to add" else []), "new.txt")
    before = snapshot(repo)
    the_change = change(repo, "new.txt", "two", "TWO")
    with pytest.raises(Refused, match=r"new\.txt is .*--include-dirty to commit it whole, or --no-commit"):
        edit(repo, the_change)
    assert changed(before, snapshot(repo)) == set()
    edit(repo, the_change, include_dirty=True)
    assert committed(repo, "new.txt") == "one\nTWO\n" and repo.status() == ""
    undo(worktree(repo))
    assert repo.read("new.txt") == b"one\ntwo\n"
    if kind != "intent to add":  # only its mark is removed
        assert changed(untimed(before), untimed(snapshot(repo))) == set()


def test_a_save_that_git_has_not_refreshed_is_noticed(repo: GitRepo) -> None:
    """A file saved at the time of the index, with the same size, is recognized only by the time of the index: the
    edit's copy of the index must not be newer."""
    repo.git("config", "core.trustctime", "false")
    file = repo.write("README.md", "one\n")
    then = file.stat().st_mtime_ns - 10**10
    os.utime(file, ns=(then, then))
    repo.git("add", "README.md")
    repo.write("README.md", "two\n")
    for path in (file, repo.top / ".git/index"):
        os.utime(path, ns=(then, then))
    assert repo.git("--no-optional-locks", "status", "--porcelain", "README.md") == "MM README.md\n"
    edit(repo, shout(repo, 2))
    assert repo.status() == "MM README.md\n"
    undo(worktree(repo))
    assert repo.status() == "MM README.md\n"
