"""Eight processes on forty files lose nothing."""

from __future__ import annotations

import json
import subprocess
import sys

from repoagent.memory import memories, read_edits, read_notes
from tests.conftest import GitRepo
from tests.memory.conftest import desk_at, text

_WORKER = """
import sys
from pathlib import Path
from repoagent.memory import EditRecord, add_note, append_edit, remember, resolve
from repoagent.repo.worktree import layout, open_worktree

top, who = Path(sys.argv[1]), int(sys.argv[2])
worktree = open_worktree(top)
place = layout(worktree)
for step in range(10):
    for number in range(who % 2, 40, 8):
        path = f"f{(number + 5 * step) % 40}.py"
        data = (top / path).read_bytes()
        memory = resolve(place, worktree, path, data)
        memory = remember(place, worktree, path, data, memory=memory)
        append_edit(memory.edits, EditRecord(f"{who}-{step}-{number}", "2026-01-01", path, "r", "", ""))
        add_note(memory.notes, f"{who} {step} {number}")
"""


def test_eight_processes_on_forty_files(repo: GitRepo) -> None:
    for number in range(40):
        repo.write(f"f{number}.py", text(f"file {number}"))
    workers = [
        subprocess.Popen([sys.executable, "-c", _WORKER, str(repo.top), str(who)], stderr=subprocess.PIPE)
        for who in range(8)
    ]
    said = [worker.communicate(timeout=100)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8, said
    assert said == [b""] * 8

    desk = desk_at(repo.top)
    found = memories(desk.layout)
    wrong = [
        memory for memory in found if any(e.path != memory.identity.path for e in read_edits(memory.edits))
    ]
    assert wrong == []
    assert len({memory.identity.path for memory in found}) == len(found) == 40
    expected = {
        f"{who}-{step}-{number}" for who in range(8) for step in range(10) for number in range(who % 2, 40, 8)
    }
    assert {edit.id for memory in found for edit in read_edits(memory.edits)} == expected
    assert sum(len(read_notes(memory.notes)) for memory in found) == len(expected)
    index = json.loads((desk.layout.memory / "index.json").read_bytes())
    assert set(index["keys"].values()) == {memory.folder.name for memory in found}
    assert not list(desk.layout.root.rglob("*.broken-*")) and not list(desk.layout.root.rglob(".tmp-*"))
