"""A full disk, closed streams, a deleted folder: no internal error, and the result is still reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GitRepo

PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n line 1\n-line 2\n+LINE 2\n"


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`line`, in which `$R` is the program."""
    setup = f'R="{sys.executable} -m repoagent"; '
    return subprocess.run(["bash", "-c", setup + line], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    (tmp_path / "patch").write_text(PATCH)
    return tmp_path / "patch"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_commit_is_reported_on_standard_error_if_standard_output_is_full(
    repo: GitRepo, patch: Path
) -> None:
    before = repo.head()
    done = shell(f"$R apply --yes {patch} >/dev/full", repo.top)
    assert done.returncode == 0 and repo.head() != before
    assert "warning: cannot write to standard output: No space left" in done.stderr
    assert f"[main {repo.head()[:7]}]" in done.stderr
    done = shell("$R undo --json 2>&1 >/dev/full | cat; echo ${PIPESTATUS[0]}", repo.top)
    assert f'"commit": "{before}"' in done.stdout and done.stdout.endswith("\n0\n")
    done = shell(f"$R apply --yes {patch} 2>/dev/full; $R apply --yes --json {patch} >/dev/full", repo.top)
    assert done.stdout.startswith("[main ") and "Traceback" not in done.stderr
    assert done.returncode in (1, 3) and done.stderr.startswith("repoagent: ")


def test_a_commit_is_reported_if_standard_output_is_closed(repo: GitRepo, patch: Path) -> None:
    done = shell(f"$R apply --yes {patch} > >(exec <&-) ; echo $? >&2", repo.top)
    assert f"[main {repo.head()[:7]}]" in done.stderr and done.stderr.endswith("\n0\n")


def test_in_a_folder_that_was_removed(repo: GitRepo, patch: Path) -> None:
    for command in (f"apply --yes {patch}", "config", "ask hello"):
        done = shell(f"mkdir gone; cd gone; rmdir ../gone; $R {command}", repo.top)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("repoagent: the current folder was deleted; change to an existing one")
