"""Eight processes on forty files lose nothing and mix nothing, while the files are saved."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repoagent.memory.edit_records import read_edits
from repoagent.memory.identity.store import memory_paths, read_memories
from repoagent.memory.notes import read_notes
from tests.conftest import GitRepo
from tests.memory.conftest import text, workspace_at

_MINUTE = """
import os, sys, time
from pathlib import Path
from repoagent.memory.edit_records import EditRecord, append_edit
from repoagent.memory.notes import add_note
from repoagent.memory.identity.store import remember_file, resolve_memory
from repoagent.git.worktree import layout_of, open_worktree

top, who, until = Path(sys.argv[1]), int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
worktree = open_worktree(top)
place = layout_of(worktree)
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
        memory = resolve_memory(place, worktree, path, data)
        memory = remember_file(place, worktree, path, data, memory=memory)
        append_edit(memory.edits, EditRecord(f"{who}-{step}", "2026-01-01", path, "r", "", ""))
        add_note(memory.notes, f"{who} {step} {path}")
        print(f"{who}-{step}", path)
"""


@pytest.mark.soak
def test_eight_processes_for_a_while(repo: GitRepo) -> None:
    """Each process repeatedly saves five of the files and remembers all forty."""
    for number in range(40):
        repo.write(f"f{number}.py", text(f"file {number}") + b"#end\n")
    command = [sys.executable, "-c", _MINUTE, str(repo.top)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    workers = [subprocess.Popen([*command, str(who), "60"], **pipes, text=True) for who in range(8)]
    said = [worker.communicate(timeout=300) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 8 and {err for _, err in said} == {""}, said
    told = dict(line.split() for out, _ in said for line in out.splitlines())

    layout = workspace_at(repo.top).layout
    found = read_memories(layout)
    assert sorted(memory.identity.path for memory in found) == sorted(f"f{number}.py" for number in range(40))
    kept = {edit.id: memory.identity.path for memory in found for edit in read_edits(memory.edits)}
    assert kept == told
    notes = [(note.text, memory.identity.path) for memory in found for note in read_notes(memory.notes)]
    assert len(notes) == len(told) and all(words.endswith(path) for words, path in notes)
    assert dict(memory_paths(layout)) == {memory.identity.path: memory.folder.name for memory in found}
    assert not list(layout.root.rglob("*.broken-*")) and not list(layout.root.rglob(".tmp-*"))
