"""Concurrent changes during an edit: refused or merged, reported clearly, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, script
from tests.edit.conftest import run as run_fixture
from tests.git.edits import committed, journals

pytestmark = pytest.mark.soak

__all__ = ["run", "script"]
run = run_fixture
COMMAND = ("edit", "src/app.py", "greet with a comma", "--yes")


def settled(repo: GitRepo) -> None:
    assert journals(repo) == [] and not list((repo.top / ".git").glob("*.lock"))
    assert not list(repo.top.rglob(".repoagent-*"))
    assert repo.git("fsck", "--connectivity-only", "--no-dangling") == ""


@pytest.mark.parametrize("how", ["in place", "atomic"])
def test_saved_elsewhere_while_the_model_thinks(repo: GitRepo, run: Run, script: Script, how: str) -> None:
    """A saved file is the user's, stays, and is not in the commit."""
    script.replies(GREET)
    file = repo.top / "src/app.py"
    save = (
        f"echo '# mine' >> {file}"
        if how == "in place"
        else f"(cat {file}; echo '# mine') > {file}.new; mv {file}.new {file}"
    )
    script.act(0, save)
    done = run(*COMMAND)
    assert done.code == 0, done.err
    assert "changed in the meantime" in done.err
    assert repo.read("src/app.py").endswith(b"# mine\n") and b"f'hello" in repo.read("src/app.py")
    assert "# mine" not in committed(repo, "src/app.py")
    settled(repo)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("sed -i s/hello/goodbye/ src/app.py", 3),  # on the same line
        ("git switch -qc other; git rm -q src/app.py; git commit -qm gone", 3),
        ("rm src/app.py; mkdir src/app.py", 3),
        ("rm src/app.py; mkfifo src/app.py", 3),
        ("mv src/app.py real.py; ln -s ../real.py src/app.py", 3),
        ("git commit -q --allow-empty -m meanwhile", 0),
        ("git switch -qc other", 0),
        ("git gc -q --prune=now", 0),
    ],
)
def test_while_the_model_thinks(repo: GitRepo, run: Run, script: Script, what: str, code: int) -> None:
    script.replies(GREET)
    script.act(0, f"cd {repo.top}; {what}")
    done = run(*COMMAND)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    if code:
        assert "kept in" in done.err or "not a regular file" in done.err or "src/app.py" in done.err
        assert "hello, {name}" not in repo.git("log", "-p", "--all")
    else:
        assert "hello, {name}" in committed(repo, "src/app.py") and repo.status() == ""
    settled(repo)


def test_many_edits_of_one_file_at_once(repo: GitRepo, script: Script, tmp_path: Path) -> None:
    """Each edit is a commit of its own or is refused; none undoes another."""
    repo.write("a.txt", "".join(f"line {n}\n" for n in range(1, 61)))
    repo.commit("longer")
    running = []
    for number in range(10, 60, 12):
        reply = tmp_path / f"{number}.md"
        reply.write_text(
            f"```diff\n--- a/a.txt\n+++ b/a.txt\n@@\n line {number - 1}\n-line {number}\n+LINE {number}\n line {number + 1}\n```\n"
        )
        command = ["edit", "--yes", "--model", "manual", "--reply", str(reply), "a.txt", f"loud {number}"]
        running.append(
            (
                number,
                subprocess.Popen(
                    [sys.executable, "-m", "repoagent", *command],
                    cwd=repo.top,
                    env=dict(os.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                ),
            )
        )
    landed = {number for number, process in running if not (process.communicate(), process.returncode)[1]}
    text = repo.read("a.txt").decode()
    assert landed and {n for n in range(1, 61) if f"LINE {n}\n" in text} == landed
    assert committed(repo, "a.txt") == text and repo.status() == ""
    assert int(repo.git("rev-list", "--count", "HEAD")) == 2 + len(landed)
    settled(repo)


@pytest.mark.parametrize("seconds", [-86_400 * 365, 86_400 * 365])
def test_files_of_another_time(repo: GitRepo, run: Run, script: Script, seconds: int) -> None:
    """After a clock change: nothing depends on the time."""
    script.replies(GREET)
    for path in (repo.top / "src/app.py", repo.top / ".git/index"):
        then = path.stat().st_mtime + seconds
        os.utime(path, (then, then))
    assert run(*COMMAND).code == 0
    assert repo.status() == ""
    for path in [*(repo.top / ".git/repoagent").rglob("*"), *(repo.top / ".repoagent").rglob("*")]:
        os.utime(path, (then, then))
    assert run("undo").code == 0 and repo.status() == ""


def test_a_save_of_the_same_size_in_the_same_instant_is_seen(repo: GitRepo, run: Run, script: Script) -> None:
    """git takes a file of the same size and time as unchanged; repoagent's index must not hide such a save."""
    script.replies(GREET)
    assert run(*COMMAND).code == 0
    file = repo.top / "src/app.py"
    status = file.stat()
    file.write_bytes(repo.read("src/app.py").replace(b"world", b"WORLD"))
    os.utime(file, ns=(status.st_atime_ns, (repo.top / ".git/index").stat().st_mtime_ns))
    assert repo.status() == " M src/app.py\n"
