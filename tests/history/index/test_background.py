"""What is started to mine apart from us."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from repoagent.history.index.index import spawn_apart


def test_what_a_server_starts_does_not_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for them, and yet at most the last of those that have ended is left."""
    started = []
    real, program = os.posix_spawn, shutil.which("true") or ""

    def spawn(path: str, arguments: list[str], env: dict[str, str], **more: object) -> int:
        started.append(real(program, ["true"], env, **more))
        return started[-1]

    monkeypatch.setattr(os, "posix_spawn", spawn)
    for _ in range(3):
        spawn_apart([], os.environ)
        until = time.monotonic() + 5
        while os.waitid(os.P_PID, started[-1], os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            assert time.monotonic() < until
            time.sleep(0.01)
    for pid in started[:-1]:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, 0)
    os.waitpid(started[-1], 0)
