"""Locations of the repository, its objects, its index and its work tree: the commit contains only the change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.files import read_source
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo
from tests.git.edits import committed, edit, lines, new_file, shout, worktree
from tests.git.only import nothing_left, only, seen

pytestmark = pytest.mark.soak

LINES = lines()


def clone(repo: GitRepo, to: Path, *options: str) -> GitRepo:
    repo.git("clone", "-q", *options, f"file://{repo.top}", str(to))
    return GitRepo(to)


@pytest.fixture
def other(repo: GitRepo, tmp_path: Path) -> Path:
    return tmp_path / "other"


def test_alternates(repo: GitRepo, other: Path) -> None:
    repo.git("clone", "-q", "-s", ".", str(other))
    only(GitRepo(other), "a.txt", "line 2", "LINE 2")
    assert repo.git("fsck") == ""


def test_replaced_commit(repo: GitRepo) -> None:
    repo.commit("second", **{"b.txt": "b\n"})
    repo.git("replace", "--graft", "HEAD")
    repo.write("README.md", "mine\n")
    only(repo, "a.txt", "line 2", "LINE 2")


def test_replaced_blob(repo: GitRepo) -> None:
    """git considers the file changed, but shows no difference; the edit follows it."""
    new = repo.git("hash-object", "-w", "--stdin", stdin=LINES.replace("line 9", "other 9").encode()).strip()
    repo.git("replace", repo.git("rev-parse", "HEAD:a.txt").strip(), new)
    (repo.top / "a.txt").unlink()
    repo.git("checkout", "-q", "--", "a.txt")
    edit(repo, shout(repo, 2))
    assert repo.git("diff", "--numstat", "HEAD^", "HEAD") == "1\t1\ta.txt\n"
    assert repo.read("a.txt").decode() == LINES.replace("line 2", "LINE 2").replace("line 9", "other 9")


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
@pytest.mark.parametrize(
    "index", ["--sparse-index", pytest.param("--no-sparse-index", marks=pytest.mark.soak)]
)
def test_sparse_checkout(repo: GitRepo, cone: str, index: str) -> None:
    for name in ("docs", "lib", "lib/deep", "src"):
        repo.write(f"{name}/x.txt", LINES)
    repo.commit("folders")
    repo.git("sparse-checkout", "set", cone, index, *(["src"] if cone == "--cone" else ["/src/", "/a.txt"]))
    before = repo.git("ls-files", "--sparse", "-t")
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    only(repo, "a.txt", "line 2", "LINE 2", head_too=False)
    only(repo, "src/x.txt", "line 2", "LINE 2")
    assert repo.git("ls-files", "--sparse", "-t") == before
    edit(repo, new_file("src/new.txt", b"new\n"))
    # a new file outside of it: git keeps it, and does not call it missing
    edit(repo, new_file("lib/new.txt", b"new\n"))
    assert repo.status() == " M a.txt\n"
    assert (
        repo.git("ls-tree", "-r", "--name-only", "HEAD", "lib/") == "lib/deep/x.txt\nlib/new.txt\nlib/x.txt\n"
    )
    nothing_left(repo)


def test_sparse_file_outside(repo: GitRepo) -> None:
    repo.write("lib/x.txt", LINES)
    repo.commit("folders")
    repo.git("sparse-checkout", "set", "src")
    before = seen(repo)
    with pytest.raises(
        Refused, match=r"lib/x\.txt is tracked, but excluded by the sparse checkout"
    ) as caught:
        edit(repo, new_file("lib/x.txt", b"new\n"))
    assert seen(repo) == before
    # a plain `git restore` does not see it: what is advised helps
    (advised,) = re.findall(r"`(git restore .*?)`", str(caught.value))
    repo.git(*advised.split()[1:])
    assert repo.read("lib/x.txt") == LINES.encode()
    only(repo, "lib/x.txt", "line 3", "LINE 3")
    (repo.top / "lib/x.txt").unlink()
    repo.git("sparse-checkout", "reapply")
    # brought back by hand: git then looks at it
    repo.write("lib/x.txt", LINES.replace("line 3", "LINE 3").replace("line 9", "mine 9"))
    only(repo, "lib/x.txt", "line 2", "LINE 2")


@pytest.mark.parametrize("bit", ["skip-worktree", "assume-unchanged"])
def test_marks_of_the_edited_file(repo: GitRepo, bit: str) -> None:
    repo.git("update-index", f"--{bit}", "a.txt", "README.md")
    repo.write("README.md", "mine\n")
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    only(repo, "a.txt", "line 2", "LINE 2")
    assert repo.status() == ""
    repo.git("update-index", f"--no-{bit}", "a.txt", "README.md")
    assert repo.status() == " M README.md\n M a.txt\n"


def test_fsmonitor_hook(repo: GitRepo, tmp_path: Path) -> None:
    hook = tmp_path / "monitor"
    hook.write_text(f"#!/bin/sh\necho called >> {tmp_path}/calls\nprintf 'token\\0/\\0'\n")
    hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(hook))
    repo.git("update-index", "--fsmonitor")
    repo.write("README.md", "mine\n")
    only(repo, "a.txt", "line 2", "LINE 2")


def test_fsmonitor_hook_that_reports_no_change(repo: GitRepo, tmp_path: Path) -> None:
    """The hook is wrong: git's resulting view must not reach a commit."""
    hook = tmp_path / "monitor"
    hook.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(hook))
    repo.git("update-index", "--fsmonitor")
    repo.status()
    repo.write("a.txt", LINES.replace("line 9", "mine 9"))
    edit(repo, shout(repo, 2))
    assert committed(repo, "a.txt") == LINES.replace("line 2", "LINE 2")


@pytest.fixture
def sub(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> GitRepo:
    inner = make_repo("inner")
    inner.commit("one", **{"x.txt": LINES})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.top), "sub")
    repo.commit("submodule")
    return GitRepo(repo.top / "sub")


def test_submodule(repo: GitRepo, sub: GitRepo) -> None:
    sub.git("checkout", "-q", "main")
    outer = repo.head()
    only(sub, "x.txt", "line 2", "LINE 2")
    assert repo.status() == " M sub\n" and repo.head() == outer
    assert repo.git("diff", "--submodule=short", "sub").splitlines()[-1] == f"+Subproject commit {sub.head()}"
    before = seen(repo)
    for path in ("sub", "sub/x.txt"):
        with pytest.raises(Refused, match="run repoagent inside"):
            read_source(worktree(repo), path)
    with pytest.raises(Refused, match="submodule"):
        edit(repo, new_file("sub/new.txt", b"new\n"))
    with pytest.raises(Refused):
        edit(repo, new_file("sub", b"new\n"))
    assert seen(repo) == before
    only(repo, "a.txt", "line 2", "LINE 2")  # with the moved pointer around
    assert repo.status() == " M sub\n"


def test_linked_work_tree_with_its_own_configuration(repo: GitRepo, other: Path) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("worktree", "add", "-q", str(other))
    linked = GitRepo(other)
    linked.git("config", "--worktree", "core.fileMode", "false")
    linked.git("config", "--worktree", "core.autocrlf", "true")
    linked.write("a.txt", LINES.replace("\n", "\r\n").replace("line 9", "mine 9"))
    (linked.top / "a.txt").chmod(0o755)
    repo.write("a.txt", "mine\n")
    only(linked, "a.txt", "line 2", "LINE 2", head_too=False)
    assert committed(linked, "a.txt") == LINES.replace("line 2", "LINE 2")
    assert linked.git("ls-tree", "HEAD", "a.txt").startswith("100644") and repo.status() == " M a.txt\n"


def test_main_work_tree_with_its_own_configuration(repo: GitRepo) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "core.fileMode", "false")
    (repo.top / "a.txt").chmod(0o755)
    assert read_source(worktree(repo), "a.txt").mode == "100644"
    only(repo, "a.txt", "line 2", "LINE 2")
    assert repo.git("ls-tree", "HEAD", "a.txt").startswith("100644")


@pytest.mark.parametrize("section", ["[include]", "[INCLUDE]", "[Include]", '[includeIf "gitdir:/**"]'])
def test_included_configuration(repo: GitRepo, section: str) -> None:
    (repo.top / ".git" / "more").write_text("[core]\n\tfileMode = false\n\tautocrlf = true\n")
    with (repo.top / ".git" / "config").open("a") as file:
        file.write(f"{section}\n\tpath = more\n")
    (repo.top / "a.txt").chmod(0o755)
    assert read_source(worktree(repo), "a.txt").mode == "100644"
    only(repo, "a.txt", "line 2", "LINE 2")


def test_bare_repository_with_a_work_tree_elsewhere(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "dots.git"))
    monkeypatch.setenv("GIT_DIR", "dots.git")
    monkeypatch.setenv("GIT_WORK_TREE", "home")
    monkeypatch.chdir(tmp_path)
    home = GitRepo(tmp_path / "home")
    home.top.mkdir()
    subprocess.run(["git", "checkout", "-q", "-f", "main"], check=True)
    assert open_worktree(tmp_path).top == home.top
    home.write("README.md", "mine\n")
    only(home, "a.txt", "line 2", "LINE 2")


def test_work_tree_of_the_configuration(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """core.worktree refers to another folder than that of `.git`."""
    keeper = tmp_path / "keeper"
    keeper.mkdir()
    shutil.move(repo.top / ".git", keeper / ".git")
    GitRepo(keeper).git("config", "core.worktree", "../../repo")
    monkeypatch.chdir(keeper)
    for name in ("GIT_DIR", "GIT_WORK_TREE"):  # it sets them, and the test is to end that
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    found = open_worktree(keeper)
    assert (found.top, found.git_dir) == (repo.top, keeper / ".git")
    assert (os.environ["GIT_DIR"], os.environ["GIT_WORK_TREE"]) == (str(keeper / ".git"), str(repo.top))
    repo.write("README.md", "mine\n")
    only(repo, "a.txt", "line 2", "LINE 2")


@pytest.mark.soak  # as test_setups_outside, which runs all of the program
@pytest.mark.parametrize(
    "options",
    [("--depth=1",), ("--depth=1", "--filter=blob:none"), ("--filter=blob:none",), ("--filter=tree:0",)],
)
def test_shallow_and_partial_clones_fetch_nothing(
    repo: GitRepo, other: Path, tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        repo.write("a.txt", LINES.replace("line 9", f"{n} 9"))
        repo.write("src/deep/x.txt", f"{n}\n")
        repo.commit(f"commit {n}")
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    new = clone(repo, other, *options)
    new.write("a.txt", LINES.replace("line 9", "2 9").replace("line 6", "mine 6"))
    new.write("README.md", "mine\n")
    before = new.git("cat-file", "--batch-all-objects", "--batch-check", "--unordered")
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    edit(new, shout(new, 2))
    monkeypatch.delenv("GIT_TRACE")
    assert "fetch" not in trace.read_text() and "upload-pack" not in trace.read_text()
    assert new.git("diff", "HEAD^", "HEAD", "--numstat") == "1\t1\ta.txt\n"
    assert new.status() == " M README.md\n M a.txt\n" and before


def test_reftable(tmp_path: Path) -> None:
    top = tmp_path / "reftable"
    made = subprocess.run(
        ["git", "init", "-q", "--ref-format=reftable", str(top)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("this git has no reftable")
    repo = GitRepo(top)
    repo.commit("first", **{"a.txt": LINES, "README.md": "read\n"})
    repo.write("README.md", "mine\n")
    only(repo, "a.txt", "line 2", "LINE 2")
