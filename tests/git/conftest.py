"""Repositories with work in progress, for the tests of what an edit may change."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.git.edits import shell

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
    shell(repo, _BUSY)
    return repo.top


_BUSY = """
echo staged > staged.txt; sed -i 's/line 3$/staged/' both.txt; echo new > new_staged.txt
git rm -q gone_staged.txt; git mv old_name.txt new_name.txt; ln -sf sub/a.txt typed_staged.txt; chmod +x mode_staged.sh
git add staged.txt both.txt new_staged.txt typed_staged.txt mode_staged.sh
sed -i 's/line 18/unstaged/' both.txt; rm gone.txt; ln -sf sub/a.txt typed.txt; chmod +x mode.sh
rm folder_now.txt; mkdir folder_now.txt; echo inner > folder_now.txt/inner.txt; rm -r file_now; echo a file now > file_now
echo intended > intended.txt; git add -N intended.txt; echo untracked > untracked.txt; echo ignored > ignored.log; mkdir empty
git update-index --assume-unchanged marked.txt; git update-index --skip-worktree skipped.txt
echo "behind git's back" > marked.txt; rm skipped.txt
"""


@pytest.fixture
def busy(busy_template: Path, tmp_path: Path) -> GitRepo:
    """A separate copy of that repository; git has refreshed its index."""
    shutil.copytree(busy_template, tmp_path / "busy", symlinks=True)
    repo = GitRepo(tmp_path / "busy")
    repo.git("update-index", "-q", "--refresh", ok=False)
    return repo


WORK = """
cp a.txt b.txt; git add b.txt; git commit -qm more
sed -i 's/line 9/staged 9/' a.txt b.txt; git add a.txt b.txt; sed -i 's/line 6/unstaged 6/' a.txt b.txt
echo mine > README.md; git rm -q --cached src/app.py; echo untracked > untracked.txt
"""


@pytest.fixture
def messy(repo: GitRepo) -> GitRepo:
    """Staged and unstaged work, in the file of the edit too."""
    shell(repo, WORK)
    return repo
