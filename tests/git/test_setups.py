"""The commit contains only the change, for any settings, index format, storage, location, conversion and name."""

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
from tests.git.edits import (
    change,
    committed,
    delete,
    edit,
    lines,
    new_file,
    only,
    refused,
    shell,
    shout,
    staged,
    worktree,
)
from tests.git.snapshot import nothing_left, seen, unchanged

LINES = lines()
MINE_9 = LINES.replace("line 9", "mine 9")
SETTINGS = [
    {"index.version": "4"},
    {"index.version": "4", "core.splitIndex": "true"},
    {"index.skipHash": "true", "feature.manyFiles": "true"},
    {"core.splitIndex": "true", "splitIndex.maxPercentChange": "0"},
    {"core.splitIndex": "true", "splitIndex.sharedIndexExpire": "now"},
    {"core.untrackedCache": "true"},
    {"core.preloadIndex": "false", "core.checkStat": "minimal", "core.trustctime": "false"},
    {"core.ignoreStat": "true"},
    {"core.fsync": "all", "core.fsyncMethod": "fsync"},
    {"core.ignoreCase": "true", "core.precomposeUnicode": "true", "core.longpaths": "true"},
    {"core.protectHFS": "true", "core.protectNTFS": "true"},
    {"core.fileMode": "false"},
    {"core.quotePath": "true", "core.symlinks": "false", "core.bigFileThreshold": "1"},
    {"core.safecrlf": "true", "core.autocrlf": "input"},
    {"core.whitespace": "trailing-space,cr-at-eol", "apply.whitespace": "error"},
    {"core.commentChar": "l"},
    {"commit.verbose": "true", "commit.template": "/nowhere", "commit.status": "false", "commit.cleanup": "strip"},
    {"status.showUntrackedFiles": "no", "status.branch": "true", "status.short": "true", "status.showStash": "true"},
    {"diff.noprefix": "true", "diff.external": "false", "diff.algorithm": "patience", "diff.renames": "copies"},
    {"diff.interHunkContext": "9", "diff.context": "0", "diff.mnemonicPrefix": "true", "color.ui": "always"},
    {"diff.ignoreSubmodules": "all", "log.showSignature": "true", "log.date": "human", "format.pretty": "oneline"},
    {"gc.auto": "1", "gc.autoDetach": "false", "gc.pruneExpire": "now"},
    {"gc.auto": "1"},
    {"merge.conflictStyle": "zdiff3", "merge.renames": "false", "rerere.enabled": "true"},
    {"core.logAllRefUpdates": "false"},
    {"alias.repoagent": "!false", "alias.commit": "!false", "alias.update-index": "!false"},
    {"help.autocorrect": "immediate", "advice.detachedHead": "false", "core.editor": "false", "core.pager": "false"},
    {"core.attributesFile": "/nowhere", "core.excludesFile": "/nowhere", "core.abbrev": "4"},
    {"extensions.worktreeConfig": "true", "core.repositoryFormatVersion": "1"},
    {"trailer.sign.key": "Signed-off-by", "commit.gpgSign": "false", "i18n.logOutputEncoding": "latin1"},
    {"push.default": "nothing", "submodule.recurse": "true", "fetch.recurseSubmodules": "true"},
]  # fmt: skip
TOGETHER = [dict(pair for one in SETTINGS[start::5] for pair in one.items()) for start in range(5)]
WORK = """
sed -i 's/line 9/staged 9/' a.txt; git add a.txt; sed -i 's/line 6/unstaged 6/' a.txt; echo mine > README.md
git rm -q --cached b.txt; echo added > added.txt; git add added.txt
echo intended > intended.txt; git add -N intended.txt; echo untracked > untracked.txt
"""


@pytest.mark.soak
@pytest.mark.parametrize("settings", [*TOGETHER, *SETTINGS], ids=lambda settings: next(iter(settings)))
def test_with_settings(repo: GitRepo, settings: dict[str, str]) -> None:
    """The file has other staged and unstaged work, and there is more work in other files."""
    for key, value in settings.items():
        repo.git("config", key, value)
    repo.commit("more", **{"b.txt": "b\n"})
    shell(repo, WORK)
    was_staged = staged(repo, "a.txt")  # core.ignoreStat makes `git add` blind
    only(repo, "a.txt", "line 2", "LINE 2")
    assert staged(repo, "a.txt") == was_staged.replace("line 2", "LINE 2")
    repo.git("commit", "-qm", "what was staged")


MONITOR = "printf '#!/bin/sh\\nprintf \"token\\\\0/\\\\0\"' > ../monitor; chmod +x ../monitor; "
SETUPS = {
    "assumed to be unchanged and is not": (
        "echo staged > README.md; git add README.md; git update-index --assume-unchanged README.md; echo x > README.md"
    ),
    "replaced commit": "git commit -q --allow-empty -m second; git replace --graft HEAD; echo mine > README.md",
    "fsmonitor": MONITOR + "git config core.fsmonitor $PWD/../monitor; git update-index --fsmonitor; echo x > README.md",
    "work tree configuration": (
        "git config extensions.worktreeConfig true; git config --worktree core.fileMode false; chmod +x a.txt"
    ),
    **{
        f"included by {section}": (
            f"git config -f .git/more core.fileMode false; chmod +x a.txt; printf '%s\\n path = more\\n' '{section}' >> .git/config"
        )
        for section in ("[include]", "[INCLUDE]", '[includeIf "gitdir:/**"]')
    },
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("setup", SETUPS)
def test_setup(repo: GitRepo, setup: str) -> None:
    shell(repo, SETUPS[setup])
    assert read_source(worktree(repo), "a.txt").content.mode == "100644"
    only(repo, "a.txt", "line 2", "LINE 2")
    assert repo.git("ls-tree", "HEAD", "a.txt").startswith("100644")


@pytest.mark.soak
def test_alternates_and_another_ref_format(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("clone", "-q", "-s", ".", str(tmp_path / "other"))
    only(GitRepo(tmp_path / "other"), "a.txt", "line 2", "LINE 2")
    assert repo.git("fsck") == ""
    top = tmp_path / "reftable"
    command = ["git", "init", "-q", "--ref-format=reftable", str(top)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this git has no reftable")
    repo = GitRepo(top)
    repo.commit("first", **{"a.txt": LINES, "README.md": "read\n"})
    repo.write("README.md", "mine\n")
    only(repo, "a.txt", "line 2", "LINE 2")


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
    repo.write("a.txt", MINE_9)
    only(repo, "a.txt", "line 2", "LINE 2", head_too=False)
    only(repo, "src/x.txt", "line 2", "LINE 2")
    assert repo.git("ls-files", "--sparse", "-t") == before
    edit(repo, new_file("src/new.txt", b"new\n"))
    # a new file outside of it: git keeps it, and does not call it missing
    edit(repo, new_file("lib/new.txt", b"new\n"))
    assert repo.status() == " M a.txt\n"
    names = repo.git("ls-tree", "-r", "--name-only", "HEAD", "lib/")
    assert names == "lib/deep/x.txt\nlib/new.txt\nlib/x.txt\n"
    nothing_left(repo)


def test_sparse_file_outside(repo: GitRepo) -> None:
    repo.commit("folders", **{"lib/x.txt": LINES})
    repo.git("sparse-checkout", "set", "src")
    excluded = r"lib/x\.txt is tracked, but excluded by the sparse checkout"
    error = refused(repo, Refused, excluded, new_file("lib/x.txt", b"new\n"))
    # a plain `git restore` does not see it: the advice in the message helps
    (advised,) = re.findall(r"`(git restore .*?)`", str(error))
    repo.git(*advised.split()[1:])
    assert repo.read("lib/x.txt") == LINES.encode()
    only(repo, "lib/x.txt", "line 3", "LINE 3")
    (repo.top / "lib/x.txt").unlink()
    repo.git("sparse-checkout", "reapply")
    # restored by hand: git then reads it
    repo.write("lib/x.txt", lines({3: "LINE 3", 9: "mine 9"}))
    only(repo, "lib/x.txt", "line 2", "LINE 2")


@pytest.mark.soak
def test_fsmonitor_hook_that_reports_no_change(repo: GitRepo) -> None:
    """The hook is wrong: git's resulting view must not reach a commit."""
    monitor = "printf '#!/bin/sh\\nprintf \"token\\\\0\"' > ../monitor; chmod +x ../monitor"
    shell(repo, f"{monitor}; git config core.fsmonitor $PWD/../monitor")
    shell(repo, "git update-index --fsmonitor; git status")
    repo.write("a.txt", MINE_9)
    edit(repo, shout(repo, 2))
    assert committed(repo, "a.txt") == lines({2: "LINE 2"})


def test_submodule(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    inner = make_repo("inner")
    inner.commit("one", **{"x.txt": LINES})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.top), "sub")
    outer = repo.commit("submodule")
    sub = GitRepo(repo.top / "sub")
    sub.git("checkout", "-q", "main")
    only(sub, "x.txt", "line 2", "LINE 2")
    assert repo.status() == " M sub\n" and repo.head() == outer
    assert repo.git("diff", "--submodule=short", "sub").splitlines()[-1] == f"+Subproject commit {sub.head()}"
    for path in ("sub/new.txt", "sub"):
        refused(repo, Refused, "submodule", new_file(path, b"new\n"))
    only(repo, "a.txt", "line 2", "LINE 2")  # with the moved pointer around
    assert repo.status() == " M sub\n"


@pytest.mark.soak
def test_linked_work_tree_with_its_own_configuration(repo: GitRepo, tmp_path: Path) -> None:
    shell(repo, "git config extensions.worktreeConfig true; git worktree add -q ../other; echo mine > a.txt")
    linked = GitRepo(tmp_path / "other")
    shell(linked, "git config --worktree core.fileMode false; git config --worktree core.autocrlf true")
    shell(linked, "chmod +x a.txt")
    linked.write("a.txt", MINE_9.replace("\n", "\r\n"))
    only(linked, "a.txt", "line 2", "LINE 2", head_too=False)
    assert committed(linked, "a.txt") == lines({2: "LINE 2"})
    assert linked.git("ls-tree", "HEAD", "a.txt").startswith("100644") and repo.status() == " M a.txt\n"


@pytest.mark.soak
def test_work_tree_of_the_configuration(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """core.worktree refers to another folder than that of `.git`."""
    keeper = tmp_path / "keeper"
    keeper.mkdir()
    shutil.move(repo.top / ".git", keeper / ".git")
    GitRepo(keeper).git("config", "core.worktree", "../../repo")
    monkeypatch.chdir(keeper)
    for name in ("GIT_DIR", "GIT_WORK_TREE"):  # `open_worktree` sets them
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    opened = open_worktree(keeper)
    assert (opened.top, opened.git_dir) == (repo.top, keeper / ".git")
    assert (os.environ["GIT_DIR"], os.environ["GIT_WORK_TREE"]) == (str(keeper / ".git"), str(repo.top))
    repo.write("README.md", "mine\n")
    only(repo, "a.txt", "line 2", "LINE 2")


@pytest.fixture
def dirty(repo: GitRepo) -> GitRepo:
    repo.commit("more", **{"b.txt": "b\n"})
    shell(repo, "echo mine > README.md; git add README.md; echo mine too > b.txt")
    return repo


@pytest.mark.soak
@pytest.mark.parametrize("driver", ["union", "ours", "binary", "own"])
def test_merge_drivers_do_not_separate_work(repo: GitRepo, driver: str) -> None:
    repo.git("config", "merge.ours.driver", "true")
    repo.git("config", "merge.own.driver", "cp %B %A")
    repo.commit("attributes", **{".gitattributes": f"* merge={driver}\n"})
    repo.write("a.txt", LINES.replace("line 5", "mine 5"))
    refused(repo, Refused, "on line 5", change(repo, "a.txt", "mine 5", "LINE 5"))
    only(repo, "a.txt", "line 9", "LINE 9")


def commit_only(repo: GitRepo, *paths: str) -> None:
    """Commit these files and .gitattributes, and none of the other work."""
    repo.git("add", ".gitattributes", *paths)
    repo.git("commit", "-qm", "more", "--", ".gitattributes", *paths)


@pytest.mark.parametrize(
    "encoding", ["UTF-16", *(pytest.param(one, marks=pytest.mark.soak) for one in ("UTF-16LE-BOM", "latin1"))]
)
def test_working_tree_encoding(dirty: GitRepo, encoding: str) -> None:
    repo, (codec, plain) = dirty, ("latin1",) * 2 if encoding == "latin1" else ("utf-16", "utf-16-le")
    repo.write(".gitattributes", f"u.txt working-tree-encoding={encoding} text\n")
    repo.write("u.txt", ("größe\n" + LINES).encode(codec))
    commit_only(repo, "u.txt")
    repo.write("u.txt", ("größe\n" + MINE_9).encode(codec))
    only(repo, "u.txt", "line 2".encode(plain), "LINE 2".encode(plain), head_too=False)
    assert committed(repo, "u.txt") == "größe\n" + lines({2: "LINE 2"})


@pytest.mark.parametrize("required", ["true", "false"])
def test_filter_that_fails(dirty: GitRepo, required: str) -> None:
    """If it is required, nothing can be committed; otherwise git continues without it, and so does an edit."""
    repo = dirty
    for key, value in {"clean": "tr a-z A-Z", "smudge": "tr A-Z a-z", "required": required}.items():
        repo.git("config", f"filter.rot.{key}", value)
    repo.write(".gitattributes", "*.rot filter=rot\n")
    os.utime(repo.write("x.rot", LINES), (1, 1))  # git trusts the time of an older file than its index
    commit_only(repo, "x.rot")
    assert committed(repo, "x.rot").startswith("LINE 1")
    repo.git("config", "filter.rot.clean", "false")
    if required == "true":
        refused(repo, Refused, r"x\.rot.*filter.*rot.*--no-commit", change(repo, "x.rot", "line 2", "edit 2"))
        nothing_left(repo)
    else:
        edit(repo, change(repo, "x.rot", "line 2", "edit 2"))
        assert committed(repo, "x.rot").splitlines()[1] == "edit 2"


NAMES = [
    b"a[b].txt", b"*", b"?", b"*[a]", b":(top)x", b":!x", b":/x", b":x", b"-x", b"--", b"--all", b" lead", b"trail ",
    b"tab\there", b"new\nline", b"cr\rhere", b"\xff\xfe.txt", b"gr\xc3\xb6\xc3\x9fe", b"gro\xcc\x88", b'quo"te',
    b"back\\slash", b"~", b"$HOME", b"HEAD", b"a -> b", b"@{u}", b"0", b"a.txt.lock", b"\x01\x1b[31m",
    b"name:with:colons", b"CON", b"dir/-x/:y", b"A.TXT",
]  # fmt: skip


def test_names(dirty: GitRepo) -> None:
    repo = dirty
    names = [os.fsdecode(name) for name in NAMES]
    for number, name in enumerate(names):
        repo.write(name, LINES + f"{number}\n")
    repo.git("--literal-pathspecs", "add", "--", *names)
    repo.git("--literal-pathspecs", "commit", "-qm", "names", "--", *names)
    repo.git("config", "core.ignoreCase", "true")
    before = seen(repo, *names)
    for name in names:
        repo.write(name, repo.read(name).replace(b"line 9", b"mine 9"))
    edit(repo, *(change(repo, name, "line 2", "LINE 2") for name in names))
    shown = repo.git("diff", "--numstat", "-z", "HEAD^", "HEAD", "--").split("\0")[:-1]
    assert sorted(shown) == sorted(f"1\t1\t{name}" for name in names)
    status = repo.git("status", "--porcelain", "-z", "--", ":(exclude)README.md", ":(exclude)b.txt")
    assert sorted(status.split("\0")[:-1]) == sorted(f" M {name}" for name in names)
    repo.git("--literal-pathspecs", "checkout", "-q", "--", *names)
    unchanged(repo, before, *names)
    for name in (":!x", "-x", os.fsdecode(b"\xff\xfe.txt")):  # and one alone
        only(repo, name, "line 4", "LINE 4")
    edit(repo, *(delete(repo, name) for name in names))
    left = repo.git("ls-tree", "-r", "--name-only", "HEAD").split()
    assert left == ["README.md", "a.txt", "b.txt", "src/app.py"]
