"""`repoagent mine`: its messages and exit codes."""

from __future__ import annotations

import os
import signal
import time

import pytest

from repoagent.git.worktree import open_worktree
from repoagent.history.index.index import mine_in_background, open_index
from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.program import run, start


def test_messages(repo: GitRepo, in_process: Ask) -> None:
    done = in_process("mine")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 commit indexed, complete (0.")
    repo.commit("second", x="1")
    assert in_process("mine", "--quiet").out == ""
    message = in_process("mine", "--json").json
    assert message.pop("size") > 0
    path = str(repo.top / ".repoagent/history.db")
    assert message == {
        "version": 1, "path": path, "commits": 2, "end": "whole", "new": 0, "complete": True,
    }  # fmt: skip


@pytest.mark.soak
def test_an_interrupt_keeps_indexed_commits(repo: GitRepo) -> None:
    stream = "".join(
        f"commit refs/heads/main\ncommitter A <a@b> {1_500_000_000 + n * 86400} +0000\ndata 0\n"
        f"M 100644 inline f{n % 50}\ndata {len(str(n))}\n{n}\n"
        for n in range(30_000)
    )
    repo.git("fast-import", "--quiet", "--force", stdin=stream.encode())
    running = start(["mine"], repo.top)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open_index(open_worktree(repo.top)) as index:
            if index.state("main").commits:
                break
    os.kill(running.pid, signal.SIGINT)
    _, err = running.communicate()
    if running.returncode == 0:
        pytest.skip("it was done before it could be interrupted")
    assert running.returncode == 130 and b" commits indexed" in err
    assert run(["mine"], repo.top).stdout.startswith(b"30,000 commits indexed, complete")


def test_in_the_background(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    worktree = open_worktree(repo.top)
    with monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        assert not mine_in_background(worktree)
        patch.delenv("CI")
        patch.setenv("REPOAGENT_HISTORY__BACKGROUND", "false")
        assert not mine_in_background(worktree)
    monkeypatch.delenv("CI", raising=False)
    assert mine_in_background(worktree)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open_index(worktree) as index:
            if index.state().complete:
                return
        time.sleep(0.02)
    raise AssertionError("nothing was mined")
