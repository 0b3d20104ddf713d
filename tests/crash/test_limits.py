"""Files that may not grow beyond a limit (RLIMIT_FSIZE): writes by repoagent and git really fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, diff, run, script
from tests.git.snapshot import nothing_left, seen, unchanged

pytestmark = pytest.mark.soak

__all__ = ["run", "script"]
ROOT = Path(__file__).parents[2]
LIMITED = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'repoagent', *sys.argv[2:]])"
)
LINES = "".join(f"line {n} of many: {n * n * 7919 % 1_000_003:x}\n" for n in range(3000))
ANSWER = diff("long.txt", f" {LINES.splitlines()[0]}", "+one line more")


@pytest.mark.parametrize(
    "size",
    [0, 2_000, 30_000, *(pytest.param(size, marks=pytest.mark.soak) for size in (300, 10_000, 50_000))],
)
def test_no_file_may_grow(repo: GitRepo, run: Run, script: Script, size: int) -> None:
    """One sentence reports it, everything is as before, and the same request can be continued."""
    repo.write("long.txt", LINES)
    repo.commit("a long file")
    repo.write("README.md", "mine\n")
    before, head = seen(repo), repo.head()
    script.replies(ANSWER, ANSWER)
    request = ["edit", "long.txt", "one line more", "--yes"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(size), "-C", str(repo.top), *request],
        cwd=ROOT,
        env={**os.environ, "REPOAGENT_MODEL": script.spec, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stderr or "File size limit exceeded" in done.stderr
    assert repo.head() == head
    unchanged(repo, before)
    nothing_left(repo)
    again = run(*request)
    assert again.code == 0, again.err
    assert repo.git("show", "HEAD:long.txt").splitlines()[1] == "one line more"
    assert repo.status() == " M README.md\n"


MODEL = """\
import sys
prompt = sys.stdin.read()
print({done!r} if "\\nApplied: long.txt" in prompt else {edit!r})
"""
DONE = "<commit-message>One line more</commit-message>\n<finish>it has one line more</finish>"


@pytest.mark.parametrize("size", [0, 300, 2_000, 10_000, 30_000, 50_000])
def test_no_file_of_a_run_may_grow(repo: GitRepo, tmp_path: Path, size: int) -> None:
    """One sentence reports it, and the run can be resumed without the limit."""
    repo.write("long.txt", LINES)
    repo.commit("a long file")
    repo.write("README.md", "mine\n")
    head = repo.head()
    model = tmp_path / "model.py"
    model.write_text(MODEL.format(done=DONE, edit=ANSWER))
    wishes = ["--mode", "auto-edit", "--no-sandbox", "--model", f"command:{sys.executable} {model}"]

    def do(most: int, *request: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", LIMITED, str(most), "-C", str(repo.top), "run", *request, *wishes],
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    done = do(size, "--conversation", "work", "one line more")
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stderr or "File size limit exceeded" in done.stderr
    assert "Traceback" not in done.stderr and repo.head() == head
    assert repo.read("README.md") == b"mine\n"
    begun = (repo.top / ".repoagent/conversations/work.md").exists()
    again = do(-1, *(["--resume", "work"] if begun else ["--conversation", "work", "one line more"]))
    assert again.returncode == 0, again.stderr
    assert repo.git("show", "HEAD:long.txt").splitlines()[1] == "one line more"
    assert (repo.git("rev-parse", "HEAD^").strip(), repo.status()) == (head, " M README.md\n")
    nothing_left(repo)
