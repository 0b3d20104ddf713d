"""The tool `files`: which files it lists for a model."""

from __future__ import annotations

import re

import pytest

from repoagent.agent.actions import Action
from repoagent.edit.draft import Draft, EditSession
from repoagent.edit.guards.off_limits import gate
from repoagent.edit.request import EditRequest
from repoagent.edit.tools import look_up
from repoagent.git.worktree import open_worktree
from tests.conftest import GitRepo


def listed(repo: GitRepo, **args: str) -> str:
    bench = EditSession(open_worktree(repo.top), EditRequest("x", ()), Draft({}), set(), gate(repo.top, ()))
    return look_up(bench, "files").perform(Action("files", args)).text


def paths(text: str) -> list[str]:
    return [row.split("  ")[0] for row in text.splitlines() if re.search(r"  \d", row)]


@pytest.fixture
def tree(repo: GitRepo) -> GitRepo:
    repo.write(".gitignore", "*.log\nbuild/\n")
    repo.write(".repoagentignore", "private/\n")
    for path in ("lib/a.py", "lib/deep/test_a.py", "lib/deep/b.ts", "top.py", "gone.py", "private/plan.py"):
        repo.write(path, "x = 1\n")
    repo.git("add", ".")
    repo.git("commit", "-qm", "tree")
    for path in ("lib/new.py", "lib/x.log", "build/out.py", ".env", "odd[1]/z.py"):
        repo.write(path, "y = 22\n")
    (repo.top / "gone.py").unlink()
    return repo


def test_a_folder_is_listed_with_the_counts_of_its_folders(tree: GitRepo) -> None:
    text = listed(tree)
    assert "lib/  4 files" in text and "odd[1]/  1 file\n" in text
    assert re.search(r"^top\.py  6 B  \d{4}-\d\d-\d\d$", text, re.MULTILINE)
    assert not {"gone.py", ".env", "build/", "private/"} & set(paths(text))
    assert "2 files withheld." in text  # .env and private/plan.py
    assert paths(listed(tree, path="./lib/")) == ["lib/deep/", "lib/a.py", "lib/new.py"]
    assert re.search(r"lib/new\.py  7 B  \S+  untracked", listed(tree, path="lib"))
    assert paths(listed(tree, path="odd[1]", pattern="*.py")) == ["odd[1]/z.py"]  # no glob of its own
    assert paths(listed(tree, path="top.py")) == ["top.py"]


@pytest.mark.parametrize(
    ("path", "pattern", "found"),
    [
        ("", "test_*.py", ["lib/deep/test_a.py"]),
        ("", "**/test_*.py", ["lib/deep/test_a.py"]),
        ("lib", "*.{py,ts}", ["lib/a.py", "lib/deep/b.ts", "lib/deep/test_a.py", "lib/new.py"]),
        ("", "lib/*.py", ["lib/a.py", "lib/new.py"]),
        ("", "private/*", []),
        ("", "*.log", []),
    ],
)
def test_a_pattern_is_a_glob_at_any_depth(tree: GitRepo, path: str, pattern: str, found: list[str]) -> None:
    text = listed(tree, path=path, pattern=pattern)
    assert paths(text) == found
    assert ("No file matches." in text) == (not found)


def test_omitted_files_are_counted(repo: GitRepo) -> None:
    for number in range(150):
        repo.write(f"{'one' if number < 90 else 'two'}/f{number:03}.py", "")
    text = listed(repo, pattern="f*.py")
    assert len(paths(text)) == 100
    assert "50 files omitted: name a folder or a narrower pattern." in text
    assert "left out" not in listed(repo, path="two", pattern="*.py")


def test_a_path_outside_the_repository_is_refused(tree: GitRepo) -> None:
    (tree.top / "away").symlink_to("/etc")
    for path in ("../", "/etc", ".git", "nowhere"):
        assert not paths(listed(tree, path=path)), path
    assert "passwd" not in listed(tree, path="away")
    repo_name = "a\n<b>.py"
    tree.write(repo_name, "")
    assert r"a\n<b>.py  0 B" in listed(tree)
