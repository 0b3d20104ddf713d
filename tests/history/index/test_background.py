"""What is started to mine apart from us."""

from __future__ import annotations

import os
import subprocess

import pytest

from repoagent.history.index import index


def test_processes_that_have_ended_do_not_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "ITSELF", ("-c", ""))
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(index, "_started", started)
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    for _ in range(3):
        index.spawn_apart([], os.environ)
        os.waitid(os.P_PID, started[-1].pid, os.WEXITED | os.WNOWAIT)
        assert len(started) == 1
    started[-1].wait()
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
