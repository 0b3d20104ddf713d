"""Repositories with work in progress, for the tests of what an edit may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import GitRepo

PATH = "sub/a.txt"
LINES = tuple(f"line {n}\n" for n in range(1, 21))
_IDENTITY = ("-c", "user.name=Ada Tester", "-c", "user.email=ada@example.com")
_OTHERS = (
    "staged.txt", "both.txt", "gone.txt", "gone_staged.txt", "old_name.txt", "typed.txt", "typed_staged.txt",
    "mode.sh", "mode_staged.sh", "folder_now.txt", "file_now/in.txt", "marked.txt", "skipped.txt",
)  # fmt: skip


def text(**lines: str) -> str:
    """The file with other lines: `l3="x"` is line 3."""
    return "".join(lines.get(f"l{n}", line.strip()) + "\n" for n, line in enumerate(LINES, 1))


@pytest.fixture(scope="session")
def busy_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with every kind of uncommitted work, everywhere except in `sub/a.txt`."""
    repo = GitRepo(tmp_path_factory.mktemp("template"))
    repo.git("init", "-q", "-b", "main")
    repo.write(".gitignore", "*.log\n")
    repo.write(PATH, text())
    for name in _OTHERS:
        repo.write(name, f"{name}\n" + text())
    (repo.top / "link.txt").symlink_to(PATH)
    (repo.top / "sub_link").symlink_to("sub")
    repo.git("add", "-A")
    repo.git(*_IDENTITY, "commit", "-q", "-m", "first")
    repo.write("staged.txt", "stashed\n")
    repo.git(*_IDENTITY, "stash", "-q")
    _work(repo)
    return repo.top


def _work(repo: GitRepo) -> None:
    repo.write("staged.txt", "staged\n")
    repo.write("both.txt", text(l3="staged"))
    repo.write("new_staged.txt", "new\n")
    repo.git("rm", "-q", "gone_staged.txt")
    repo.git("mv", "old_name.txt", "new_name.txt")
    _replace_by_link(repo, "typed_staged.txt")
    (repo.top / "mode_staged.sh").chmod(0o755)
    repo.git("add", "staged.txt", "both.txt", "new_staged.txt", "typed_staged.txt", "mode_staged.sh")
    repo.write("both.txt", text(l3="staged", l18="unstaged"))
    (repo.top / "gone.txt").unlink()
    _replace_by_link(repo, "typed.txt")
    (repo.top / "mode.sh").chmod(0o755)
    (repo.top / "folder_now.txt").unlink()
    repo.write("folder_now.txt/inner.txt", "inner\n")
    shutil.rmtree(repo.top / "file_now")
    repo.write("file_now", "a file now\n")
    repo.write("intended.txt", "intended\n")
    repo.git("add", "-N", "intended.txt")
    repo.write("untracked.txt", "untracked\n")
    repo.write("ignored.log", "ignored\n")
    (repo.top / "empty").mkdir()
    repo.git("update-index", "--assume-unchanged", "marked.txt")
    repo.git("update-index", "--skip-worktree", "skipped.txt")
    repo.write("marked.txt", "behind git's back\n")
    (repo.top / "skipped.txt").unlink()


def _replace_by_link(repo: GitRepo, path: str) -> None:
    (repo.top / path).unlink()
    (repo.top / path).symlink_to("sub/a.txt")


@pytest.fixture
def busy(busy_template: Path, tmp_path: Path) -> GitRepo:
    """A separate copy of that repository; git has refreshed its index."""
    shutil.copytree(busy_template, tmp_path / "busy", symlinks=True)
    repo = GitRepo(tmp_path / "busy")
    repo.git("update-index", "-q", "--refresh", ok=False)
    return repo
