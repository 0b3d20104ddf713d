"""Eight processes on forty files lose nothing and mix nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repoagent.memory.edit_records import read_edits
from repoagent.memory.identity.store import listing, memories
from repoagent.memory.notes import read_notes
from tests.conftest import GitRepo
from tests.memory.conftest import desk_at, text

_WORKER = """
import sys
from pathlib import Path
from repoagent.memory.edit_records import EditRecord, append_edit; from repoagent.memory.notes import add_note; from repoagent.memory.identity.store import remember, resolve
from repoagent.git.worktree import layout, open_worktree

top, who = Path(sys.argv[1]), int(sys.argv[2])
worktree = open_worktree(top)
place = layout(worktree)
for step in range(4):
    for number in range(who % 2, 40, 8):
        path = f"f{(number + 10 * step) % 40}.py"
        data = (top / path).read_bytes()
        memory = resolve(place, worktree, path, data)
        memory = remember(place, worktree, path, data, memory=memory)
        append_edit(memory.edits, EditRecord(f"{who}-{step}-{number}", "2026-01-01", path, "r", "", ""))
        add_note(memory.notes, f"{who} {step} {number}")
"""


@pytest.mark.soak
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
        f"{who}-{step}-{number}" for who in range(8) for step in range(4) for number in range(who % 2, 40, 8)
    }
    assert {edit.id for memory in found for edit in read_edits(memory.edits)} == expected
    assert sum(len(read_notes(memory.notes)) for memory in found) == len(expected)
    assert dict(listing(desk.layout)) == {memory.identity.path: memory.folder.name for memory in found}
    assert not list(desk.layout.root.rglob("*.broken-*")) and not list(desk.layout.root.rglob(".tmp-*"))


_MINUTE = """
import os, sys, time
from pathlib import Path
from repoagent.memory.edit_records import EditRecord, append_edit; from repoagent.memory.notes import add_note; from repoagent.memory.identity.store import remember, resolve
from repoagent.git.worktree import layout, open_worktree

top, who, until = Path(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
worktree = open_worktree(top)
place = layout(worktree)
step = 0
while time.monotonic() < until:
    for number in range(40):
        step += 1
        path = f"f{number}.py"
        data = (top / path).read_bytes()
        if number % 8 == who:  # its own files are saved anew all the time
            data = data[: data.index(b"#end")] + f"#end {who} {step}\\n".encode()
            (top / f"t{who}").write_bytes(data)
            os.replace(top / f"t{who}", top / path)
        memory = resolve(place, worktree, path, data)
        memory = remember(place, worktree, path, data, memory=memory)
        append_edit(memory.edits, EditRecord(f"{who}-{step}", "2026-01-01", path, "r", "", ""))
        add_note(memory.notes, f"{who} {step} {path}")
        print(f"{who}-{step}", path)
"""


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(2))
def test_eight_processes_for_a_while(repo: GitRepo, turn: int) -> None:
    """Each process repeatedly saves five of the files and remembers all forty."""
    for number in range(40):
        repo.write(f"f{number}.py", text(f"file {number}") + b"#end\n")
    command = [sys.executable, "-c", _MINUTE, str(repo.top)]
    workers = [
        subprocess.Popen(
            [*command, str(who), "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for who in range(8)
    ]
    said = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8 and {err for _, err in said} == {""}, said
    told = dict(line.split() for out, _ in said for line in out.splitlines())

    found = memories(desk_at(repo.top).layout)
    assert sorted(memory.identity.path for memory in found) == sorted(f"f{number}.py" for number in range(40))
    kept = {edit.id: memory.identity.path for memory in found for edit in read_edits(memory.edits)}
    assert kept == told
    notes = [(note.text, memory.identity.path) for memory in found for note in read_notes(memory.notes)]
    assert len(notes) == len(told) and all(words.endswith(path) for words, path in notes)
    assert not list(desk_at(repo.top).layout.root.rglob("*.broken-*"))
