"""Several processes on one conversation, and kills in the middle of a change."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repoagent.errors import RepoagentError
from repoagent.llm.conversation import loads
from tests.memory.conftest import killed_at
from tests.memory.conversations.conftest import StoredConversations

_WORKER = """
import sys
from pathlib import Path
from repoagent.llm.conversation import Turn, append_turns
from repoagent.memory.conversation_log import ConcurrentChange, change_conversation
from repoagent.memory.conversations import conversation_named
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.storage.atomic import read_regular

place_of_all = layout_of(open_worktree(Path(sys.argv[1])))
who, steps = sys.argv[2], int(sys.argv[3])
place = conversation_named(place_of_all, "shared")
for step in range(steps):
    if who.startswith("a"):
        append_turns(place.path, Turn("user", f"{who} {step}"))
        continue
    while True:
        data = read_regular(place.path)
        try:
            change_conversation(place_of_all, place, data, data + f"{who} {step}\\n".encode(), "edit")
            break
        except ConcurrentChange:
            pass
"""


@pytest.mark.parametrize(("workers", "steps"), [(2, 12), pytest.param(8, 60, marks=pytest.mark.soak)])
def test_processes_lose_nothing(stored: StoredConversations, workers: int, steps: int) -> None:
    place = stored.make("shared")
    names = [f"{'ae'[number % 2]}{number}" for number in range(workers)]
    top = str(stored.workspace.worktree.top)
    commands = [[sys.executable, "-c", _WORKER, top, name, str(steps)] for name in names]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    said = [each.communicate(timeout=200)[1] for each in running]
    assert [each.returncode for each in running] == [0] * workers, said
    lines = place.path.read_text().split("\n")
    for name in names:
        own = [line for line in lines if line.startswith(f"{name} ")]
        assert own == [f"{name} {step}" for step in range(steps)]
    assert len(loads(place.path.read_text()).turns) == 5 + steps * ((workers + 1) // 2)


@pytest.mark.soak
@pytest.mark.parametrize("end", [b"more\n", None], ids=["changed", "deleted"])
def test_a_change_killed_at_each_step_leaves_old_or_new(
    stored: StoredConversations, end: bytes | None
) -> None:
    """And it can be undone if and only if it came to be."""
    for number in range(1, 100):
        place = stored.make(f"talk {number}")
        old = place.path.read_bytes()
        new = None if end is None else old + end
        goes_on = killed_at(number, lambda: stored.edit(place, old, new))  # noqa: B023
        present = place.path.read_bytes() if place.path.exists() else None
        assert present in (old, new)
        try:
            stored.undo(place)
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
