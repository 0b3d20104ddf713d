"""Several processes on one conversation, and kills in the middle of a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest

from repoagent.errors import RepoagentError
from repoagent.llm.conversation import loads
from repoagent.memory.conversation_changes import change, undo
from tests.memory.conversations.conftest import Talks

_WORKER = """
import sys
from pathlib import Path
from repoagent.llm.conversation import Turn, append
from repoagent.memory.conversation_changes import ConcurrentChange, change
from repoagent.memory.conversations import named
from repoagent.git.worktree import layout, open_worktree
from repoagent.storage.atomic import read_regular

place_of_all = layout(open_worktree(Path(sys.argv[1])))
who, steps = sys.argv[2], int(sys.argv[3])
place = named(place_of_all, "shared")
for step in range(steps):
    if who.startswith("a"):
        append(place.path, Turn("user", f"{who} {step}"))
        continue
    while True:
        data = read_regular(place.path)
        try:
            change(place_of_all, place, data, data + f"{who} {step}\\n".encode(), "edit")
            break
        except ConcurrentChange:
            pass
"""


def together(talks: Talks, workers: int, steps: int) -> None:
    place = talks.make("shared")
    names = [f"{'ae'[number % 2]}{number}" for number in range(workers)]
    top = str(talks.desk.worktree.top)
    commands = [[sys.executable, "-c", _WORKER, top, name, str(steps)] for name in names]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    said = [each.communicate(timeout=200)[1] for each in running]
    assert [each.returncode for each in running] == [0] * workers, said
    lines = place.path.read_text().split("\n")
    for name in names:
        own = [line for line in lines if line.startswith(f"{name} ")]
        assert own == [f"{name} {step}" for step in range(steps)]
    assert len(loads(place.path.read_text()).turns) == 5 + steps * ((workers + 1) // 2)


def test_two_processes_lose_nothing(talks: Talks) -> None:
    together(talks, 2, 12)


@pytest.mark.soak
def test_eight_processes_lose_nothing(talks: Talks) -> None:
    together(talks, 8, 60)


def killed_at(number: int, act: Callable[[], object]) -> bool:
    """Do `act` in a process that is killed before its change of the disk with this number; whether it came so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads: none of them matters
        child = os.fork()
    if child == 0:
        seen = 0

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **named: object) -> object:
                nonlocal seen
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **named)

            return call

        for name in ("write", "fsync", "replace", "unlink", "mkdir"):
            setattr(os, name, counted(getattr(os, name)))
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def kill_everywhere(talks: Talks, after: Callable[[bytes], bytes | None]) -> None:
    """A change killed at each step leaves old or new, and can be taken back if and only if it came to be."""
    desk = talks.desk
    for number in range(1, 100):
        place = talks.make(f"talk {number}")
        old = place.path.read_bytes()
        new = after(old)
        goes_on = killed_at(number, lambda: change(desk.layout, place, old, new, "edit"))  # noqa: B023
        present = place.path.read_bytes() if place.path.exists() else None
        assert present in (old, new)
        try:
            undo(desk.layout, place)
        except RepoagentError:
            assert present == old
        else:
            assert present == new
        assert place.path.read_bytes() == old
        assert goes_on or present == new
        if not goes_on:
            assert number > 5 and not list(place.path.parent.rglob(".tmp-*"))
            return
    raise AssertionError("it never came to its end")


@pytest.mark.soak
@pytest.mark.parametrize("end", [b"more\n", None], ids=["changed", "deleted"])
def test_killed_at_each_step(talks: Talks, end: bytes | None) -> None:
    kill_everywhere(talks, lambda old: None if end is None else old + end)
