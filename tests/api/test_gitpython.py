"""Objects of GitPython in the library: what `Repository` takes of them, and gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import git
import pytest

from repoagent import Repository, errors
from repoagent.api.gitpython import patch_text
from tests.conftest import GitRepo
from tests.mcp.test_tools import PATCH

PATHS = ("a.txt", "new.txt", "gone.txt", "moved to.txt", "run.sh", 'é\t".txt', "empty.txt")


@pytest.fixture
def changed(repo: GitRepo) -> GitRepo:
    """Two commits with every kind of change in the second."""
    rows = "".join(f"row {n}\n" for n in range(20))
    old = {"gone.txt": "gone\n", "old name.txt": rows, "run.sh": "#!/bin/sh\n", 'é\t".txt': "one\n"}
    repo.commit("before", **old)
    repo.git("mv", "old name.txt", "moved to.txt")
    repo.git("rm", "-q", "gone.txt")
    (repo.top / "run.sh").chmod(0o755)
    edited = repo.read("a.txt").replace(b"line 5\n", b"five\n") + b"no newline"
    repo.commit("after", **{"a.txt": edited, "new.txt": "new\n", "empty.txt": "", 'é\t".txt': "two\n"})
    return repo


def test_the_import_loads_no_git(repo: GitRepo) -> None:
    code = (
        "import sys, repoagent; repo = repoagent.Repository(); repo.outline('src/app.py'); repo.review()\n"
        "assert 'git' not in sys.modules; repo.git; assert 'git' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=repo.top, check=True)


def test_a_repo_goes_in_and_out(repo: GitRepo, tmp_path: Path) -> None:
    with git.Repo(repo.top / "src", search_parent_directories=True) as given:
        opened = Repository(given)
        assert (opened.top, opened.git) == (repo.top, given) and opened.git is given
    own = Repository(repo.top)
    assert own.git.head.commit.hexsha == repo.head() and own.git is own.git
    with pytest.raises(errors.UsageError, match="is bare: Repository needs a work tree"):
        Repository(git.Repo.init(tmp_path / "bare", bare=True))
    with pytest.raises(errors.UsageError, match=r"takes a path or a git\.Repo, not int"):
        Repository(1)


def test_a_result_gives_its_commit(repo: GitRepo) -> None:
    opened = Repository(repo.top)
    seen = opened.apply(PATCH, dry_run=True)
    blob = opened.git.head.commit.tree / "src/app.py"
    done = opened.apply(PATCH, sources={"src/app.py": blob}, message="Comma")
    assert seen.git_commit is None
    assert done.git_commit == opened.git.head.commit
    assert done.git_commit is not None and list(done.git_commit.stats.files) == ["src/app.py"]
    assert opened.git.commit(opened.undo().commit) == done.git_commit.parents[0]
    with pytest.raises(errors.Refused):
        opened.apply(PATCH, sources={"src/app.py": opened.git.head.commit.tree / "a.txt"})
    with pytest.raises(errors.UsageError, match=r"id or a git\.Blob, not git\.objects\.commit\.Commit"):
        opened.apply(PATCH, sources={"src/app.py": done.git_commit})


def test_revisions(changed: GitRepo) -> None:
    opened = Repository(changed.top)
    head, before = opened.git.head.commit, opened.git.head.commit.parents[0]
    tag = opened.git.create_tag("v1", before, message="one")
    remote = git.RemoteReference(opened.git, "refs/remotes/origin/main")
    changed.git("update-ref", remote.path, before.hexsha)
    assert tag.tag is not None
    for revision in (before, tag, tag.tag, remote):
        assert opened.history("gone.txt", revision=revision).steps[0].commit.subject == "before"
    for revision in (head, opened.git.head, opened.git.active_branch):
        assert opened.history("a.txt", revision=revision).steps[0].commit.subject == "after"
    assert opened.neighbors("a.txt", revision=before).commit == before.hexsha
    assert opened.review(base=remote).files == opened.review(commit=opened.git.head).files == 7
    words = r"a revision must be .*, a git\.Commit or .*, not git\.objects\.tree\.Tree"
    with pytest.raises(errors.UsageError, match=words):
        opened.neighbors("a.txt", revision=head.tree)


def test_a_diff_is_the_patch_that_git_prints(changed: GitRepo) -> None:
    with git.Repo(changed.top) as repo:
        head, before = repo.head.commit, repo.head.commit.parents[0]
        for options in ({}, {"unified": 0}, {"binary": True}, {"no_renames": True}):
            index = before.diff(head, create_patch=True, **options)
            flags = {"unified": "--unified=0", "binary": "--binary", "no_renames": "--no-renames"}
            command = ("diff", "--full-index", "-M", *map(flags.get, options), before.hexsha, head.hexsha)
            printed = changed.git(*command).encode("utf-8", "surrogateescape")
            assert bare(patch_text(index)) == bare(printed)


def bare(patch: bytes) -> list[bytes]:
    """The lines, without those that no reader of a patch needs."""
    return [line.rstrip(b"\t") for line in patch.split(b"\n") if not line.startswith(b"similarity index")]


def test_a_diff_is_applied_and_reviewed(changed: GitRepo) -> None:
    opened = Repository(changed.top)
    head, before = opened.git.head.commit, opened.git.head.commit.parents[0]
    index = before.diff(head, create_patch=True)
    assert opened.review(diff=index).files == opened.review(diff=index[0:8]).files == 7
    for commit in (False, True):
        changed.git("reset", "-q", "--hard", before.hexsha)
        done = opened.apply(index, commit=commit, allow_sensitive=True)
        assert {file.path or file.old_path for file in done.files} == set(PATHS)
        if commit:
            assert done.git_commit is not None and done.git_commit.tree == head.tree
        else:
            changed.git("add", "-A")
            assert changed.git("write-tree").strip() == head.tree.hexsha


def test_a_diff_that_can_not_be_applied_is_refused_in_a_sentence(repo: GitRepo) -> None:
    repo.commit("after", new="new\n")
    opened = Repository(repo.top)
    head = opened.git.head.commit
    refusals: list[tuple[Any, type[errors.RepoagentError], str]] = [
        (head.parents[0].diff(head), errors.UsageError, "has no patches: create it with create_patch=True"),
        (head.diff(head, create_patch=True), errors.NothingDone, "is empty"),
        ([1], errors.UsageError, r"a diff must be .*, bytes or a git\.DiffIndex, not list"),
    ]
    for diff, kind, words in refusals:
        with pytest.raises(kind, match=words):
            opened.apply(diff)
        with pytest.raises(kind, match=words):
            opened.review(diff=diff)
    assert repo.status() == ""
