"""What a prompt says of a file's history: the block, gathered within a time."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git.process import GitError
from repoagent.git.worktree import layout, open_worktree
from repoagent.history.file_history import prompt_block
from repoagent.history.index.index import open_index
from repoagent.history.summary_store import Summary, write_summary
from tests.conftest import GitRepo


def block(repo: GitRepo, path: str, commits: int = 8, **options: float) -> str:
    return prompt_block(open_worktree(repo.top), path, commits, **{"seconds": 20, **options})


def grow(repo: GitRepo, count: int) -> None:
    for number in range(count):
        repo.commit(f"change {number}", **{"app.py": f"def f():\n    return {number}\n"})


def test_people_then_the_newest_commits_and_what_they_did(repo: GitRepo) -> None:
    grow(repo, 3)
    lines = block(repo, "app.py").splitlines()
    assert lines[0].startswith("3 commits by Ada Tester 3; last 20")
    assert [line.partition(": ")[2] for line in lines[1:]] == [
        "change 2 — changes f, +1 −1",
        "change 1 — changes f, +1 −1",
        "change 0 — added; with f, +2 −0",
    ]


def test_it_fits_and_all_commits_are_counted(repo: GitRepo) -> None:
    grow(repo, 12)
    found = block(repo, "app.py", 4)
    assert found.startswith("12 commits by Ada Tester 12")
    assert found.count("change ") == 4 and found.endswith("omitted)\n")
    assert len(found.encode()) <= 4 * 45 * 4


def test_nothing_to_say(repo: GitRepo, make_repo: Callable[[str], GitRepo]) -> None:
    assert block(repo, "new.py") == ""
    assert block(repo, "a.txt", 0) == ""
    assert block(make_repo("empty"), "a.txt") == ""


def test_renames_are_followed_with_their_lines(repo: GitRepo) -> None:
    text = "def f():\n    return 1\n" + "# a long tail\n" * 20
    repo.commit("add", **{"app.py": text})
    repo.git("mv", "app.py", "core.py")
    repo.write("core.py", f"{text}\n\ndef g():\n    return 1\n")
    repo.commit("move")
    found = block(repo, "core.py")
    assert "move — moved from app.py; adds g, +4 −0" in found
    assert "add — added; with f, +22 −0" in found


def test_the_index_gives_the_same(repo: GitRepo) -> None:
    grow(repo, 5)
    repo.git("mv", "app.py", "core.py")
    repo.commit("move")
    walked = block(repo, "core.py", 2)
    with open_index(open_worktree(repo.top)) as index:
        assert index.update("HEAD").complete
    assert block(repo, "core.py", 2) == walked
    repo.commit("new", **{"core.py": "def f():\n    return 0\n"})
    assert "new — changes f" in block(repo, "core.py", 2)


def test_lines_of_a_model_come_instead(repo: GitRepo) -> None:
    grow(repo, 1)
    folder = layout(open_worktree(repo.top)).summaries
    assert "— added; with f" in prompt_block(
        open_worktree(repo.top), "app.py", 8, seconds=20, summaries=folder
    )
    write_summary(folder, Summary(repo.head(), "adds everything", {"app.py": "adds f, for a start"}))
    assert "change 0 — adds f, for a start, +2 −0" in prompt_block(
        open_worktree(repo.top), "app.py", 8, seconds=20, summaries=folder
    )


def test_a_partial_clone_fetches_nothing(repo: GitRepo, tmp_path: Path) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    grow(repo, 3)
    clone = tmp_path / "partial"
    subprocess.run(["git", "clone", "-q", "--filter=blob:none", repo.top.as_uri(), clone], check=True)
    command = ["git", "count-objects", "-v"]
    before = subprocess.run(command, cwd=clone, capture_output=True, check=True).stdout
    assert block(GitRepo(clone), "app.py").count("change ") == 3
    assert subprocess.run(command, cwd=clone, capture_output=True, check=True).stdout == before


@pytest.mark.soak
def test_time_is_bounded(repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(repo, 2)
    worktree = open_worktree(repo.top)
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        f'#!/bin/sh\n"{real}" "$@" || exit\ncase "$*" in *--no-walk*) ;; *" log "*) exec sleep 60;; esac\n'
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    found = prompt_block(worktree, "app.py", 8, seconds=1.0)
    assert time.monotonic() - began < 15
    assert found.startswith("the last 2 commits by") and "change 1 — changes f, +1 −1" in found


def test_a_failure_of_git_is_said(repo: GitRepo) -> None:
    worktree = open_worktree(repo.top)
    (repo.top / ".git/HEAD").write_text("nonsense\n")
    with pytest.raises(GitError):
        prompt_block(worktree, "a.txt", 8, seconds=20)
