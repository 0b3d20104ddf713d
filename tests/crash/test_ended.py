"""SIGTERM and SIGHUP during an edit: it is undone first, and the exit status tells the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET
from tests.git.edits import journals
from tests.git.snapshot import visible

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("where", ["check", "hook"])
def test_ended(repo: GitRepo, tmp_path: Path, number: signal.Signals, where: str) -> None:
    reply, started = tmp_path / "reply.md", tmp_path / "started"
    reply.write_text(GREET)
    wait = f"touch {started}; sleep 2"
    if where == "hook":
        repo.hook("pre-commit", wait + "\n")
    repo.write("src/app.py", repo.read("src/app.py") + b"# mine\n")
    before = visible(repo)
    command = [
        "edit",
        "--yes",
        "--model",
        "manual",
        "--reply",
        str(reply),
        "src/app.py",
        "greet with a comma",
    ]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "repoagent",
            *command,
            *(["--check", wait, "--check-unconfined"] if where == "check" else []),
        ],
        cwd=repo.top,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.01)
    assert (repo.top / ".git/index.lock").exists()
    os.kill(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode == -number
    assert visible(repo) == before and repo.read("src/app.py").endswith(b"# mine\n")
    assert journals(repo) == [] and not list((repo.top / ".git/repoagent/locks").iterdir())
