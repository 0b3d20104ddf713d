"""Locks between real processes."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from repoagent.errors import Busy, Refused
from repoagent.storage.locks import hold_lock, lock_holder

_HOLD = (
    "import sys, time; from pathlib import Path; from repoagent.storage.locks import hold_lock\n"
    "with hold_lock(Path(sys.argv[1]), label='the memory'):\n"
    "    print('held', flush=True); time.sleep(30)\n"
)


def test_busy_names_the_holder_and_death_frees(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    assert lock_holder(path) is None
    for _ in range(2):  # a free lock takes no time
        with hold_lock(path, timeout=0, label="it"):
            pass
    command = [sys.executable, "-c", _HOLD, str(path), "\x1b[31mred\nline"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert (lock_holder(path) or "").startswith(f"process {holder.pid} ")
        started = time.monotonic()
        with pytest.raises(Busy) as caught, hold_lock(path, timeout=0.2, label="the memory"):
            pass
        assert 0.2 <= time.monotonic() - started < 5
        message = rf"cannot lock the memory, held by process {holder.pid} .*since 20\d\d-.*waited 0.2 s"
        assert re.search(message, str(caught.value))  # on one line
        assert "\x1b" not in str(caught.value) and "\n" not in str(caught.value)
        holder.kill()
        with hold_lock(path, timeout=5, label="the memory"):
            pass
        assert lock_holder(path) is None
    assert path.read_bytes() == b""


def test_only_one_at_a_time(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    script = (
        "import sys; from pathlib import Path; from repoagent.storage.locks import hold_lock\n"
        "c = Path(sys.argv[1])\n"
        "for _ in range(50):\n"
        "    with hold_lock(c.with_name('lock'), label='it'): c.write_text(str(int(c.read_text()) + 1))\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", script, str(counter)]) for _ in range(4)]
    assert [worker.wait() for worker in workers] == [0] * 4
    assert counter.read_text() == "200"


def test_a_linked_lock_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "lock").symlink_to(victim)
    with pytest.raises(Refused, match="lock"), hold_lock(tmp_path / "lock", label="it"):
        pass
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Refused, match="not a regular file"), hold_lock(tmp_path / "fifo", label="it"):
        pass
    assert victim.read_bytes() == b"mine"


def test_a_child_that_lives_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    script = (
        "import os, sys, time; from pathlib import Path; from repoagent.storage.locks import hold_lock\n"
        "with hold_lock(Path(sys.argv[1]), label='it'):\n"
        "    child = os.fork()\n"
        "    if not child: time.sleep(20); os._exit(0)\n"
        "print(child)\n"
    )
    with (tmp_path / "out").open("w") as out:
        subprocess.run([sys.executable, "-c", script, str(path)], stdout=out, check=True)
    try:
        with hold_lock(path, timeout=0, label="it"):
            pass
    finally:
        os.kill(int((tmp_path / "out").read_text()), 9)


def test_a_file_system_without_locks_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
        with pytest.raises(Refused, match="No locks available"), hold_lock(tmp_path / "lock", label="it"):
            pass
