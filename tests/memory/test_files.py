"""The files of a memory: broken, foreign, newer, forged; edited by hand."""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.llm.model import Usage
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.record import Identity, LastSeen, RekeyingEvent, from_dict
from repoagent.memory.identity.renames import last_contents
from repoagent.memory.identity.store import read_memories, remember_file
from repoagent.memory.notes import add_note, read_notes
from repoagent.storage import json_files
from tests.memory.conftest import Workspace, text


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b'{"version": 1}', b'{"version": 1, "path": ""}', b'{"version": 1, "path": "a.py", "keys": []}',
        br'{"version":1,"path":"\ud800"}', br'{"version":1,"path":"x","places":{"/":{"path":"\u0000","blob":""}}}',
        b'{"version": 1, "path": "a.py", "commit": "--output=b.py"}',
    ],
)  # fmt: skip
def test_a_broken_identity_is_set_aside_and_the_others_work(workspace: Workspace, content: bytes) -> None:
    memory = workspace.known("a.py")
    add_note(memory.notes, "worth keeping")
    file = memory.folder / "identity.json"
    file.write_bytes(content)
    warnings: list[str] = []
    assert workspace.resolve("a.py", warnings.append) is None
    assert len(warnings) == 1 and str(file) in warnings[0]
    assert file.with_name("identity.json.broken-1").read_bytes() == content
    assert workspace.folder("b.py") is not None
    assert read_notes(memory.notes)[0].text == "worth keeping"
    again = remember_file(workspace.layout, workspace.worktree, "a.py", text("a"), warn=warnings.append)
    assert again.folder != memory.folder


def test_a_newer_identity_is_named_and_not_touched(workspace: Workspace) -> None:
    file = workspace.known("a.py").folder / "identity.json"
    before = file.read_bytes().replace(b'"version": 1', b'"version": 2')
    file.write_bytes(before)
    warnings: list[str] = []
    assert workspace.resolve("a.py", warnings.append) is None
    assert len(warnings) == 1 and "identity.json has format version 2" in warnings[0]
    assert file.read_bytes() == before


def test_a_linked_memory_folder_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    workspace.layout.memory.rename(tmp_path / "outside")
    workspace.layout.memory.symlink_to(tmp_path / "outside")
    with pytest.raises(Refused, match="memory is a symbolic link"):
        workspace.folder("a.py")
    with pytest.raises(Refused, match="memory is a symbolic link"):
        workspace.remember("a.py")


def test_hostile_folders_are_not_followed(workspace: Workspace, tmp_path: Path) -> None:
    mine = workspace.known("a.py")
    outside = tmp_path / "outside"
    mine.folder.rename(outside)
    mine.folder.symlink_to(outside)
    os.mkfifo(workspace.layout.memory / "fifo")
    (workspace.layout.memory / "odd").mkdir()
    os.mkfifo(workspace.layout.memory / "odd" / "identity.json")
    warnings: list[str] = []
    found = read_memories(workspace.layout, warn=warnings.append)
    assert [memory.identity.path for memory in found] == ["b.py"]
    assert len(warnings) == 1 and "odd/identity.json is not a regular file" in warnings[0]
    with pytest.raises(Refused):
        append_edit(mine.edits, record(1))
    assert not (outside / "edits.jsonl").exists()


@pytest.mark.parametrize("packed", [b"", b"not zlib", zlib.compress(b"\0" * 50_000_000, 1)])
def test_a_forged_last_content_costs_neither_memory_nor_work(workspace: Workspace, packed: bytes) -> None:
    mine = workspace.known("a.py")
    (mine.folder / "seen.z").write_bytes(packed)
    assert sum(map(len, last_contents(mine.folder, workspace.worktree))) <= 4 * 1024 * 1024
    assert workspace.folder("a.py") == mine.folder.name  # the blob is enough


_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
_TEXTS = st.text(st.characters(), min_size=1, max_size=10)
_IDENTITIES = st.builds(
    Identity,
    path=_NAMES,
    earlier_paths=st.lists(_NAMES).map(tuple),
    keys=st.dictionaries(_TEXTS, _TEXTS),
    blobs=st.lists(_TEXTS).map(tuple),
    commit=st.none() | st.text("0123456789abcdef", min_size=40, max_size=40),
    rekeyings=st.lists(st.builds(RekeyingEvent, *[_TEXTS] * 5)).map(tuple),
    strangers=st.lists(_NAMES).map(tuple),
    places=st.dictionaries(_NAMES, st.builds(LastSeen, _NAMES, _TEXTS)),
)


@settings(max_examples=50)
@given(_IDENTITIES)
def test_an_identity_reads_back_equal(identity: Identity) -> None:
    assert from_dict(json.loads(json.dumps(asdict(identity)))) == identity


def test_keys_do_not_pile_up() -> None:
    identity = Identity("a")
    for number in range(100):
        identity = identity.keyed(f"1:{number}", "/work").keyed(f"{number}:7", "/elsewhere")
    assert identity.keys["1:99"] == "/work" and len(identity.keys) <= 8


def record(number: int, **changed: Any) -> EditRecord:
    time = f"2026-11-{number:02}T10:00:00+00:00"
    plain = EditRecord(f"id{number}", time, "a.py", f"request {number}", "a" * 40, "b" * 40)
    return replace(plain, **changed)


def test_edit_records_come_back_the_last_state_counts_and_strange_ones_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "edits.jsonl"
    usage, levels = Usage(1, 2, 3, 4, True), ("exact", "trailing space")
    first = record(1, usage=usage, cost=0.25, levels=levels, commit="c" * 40)
    second = record(2, request="größer\nals \udcff")
    for edit in (first, second):
        append_edit(path, edit)
    assert read_edits(path) == [first, second]
    append_edit(path, record(1, state="undone"))
    assert read_edits(path) == [record(1, state="undone"), second]
    strange: list[dict[str, Any]] = [
        {"version": 2}, {"version": None}, {"id": 1}, {"usage": []}, {"usage": {"unknown": 1}}, {"cost": "1"},
        {"levels": [1]}, {"commit": 1}, {"request": None},
    ]  # fmt: skip
    for change in strange:
        json_files.append_record(path, {**record(3).to_dict(), **change})
    warnings: list[str] = []
    assert read_edits(path, warn=warnings.append) == [record(1, state="undone"), second]
    assert len(warnings) == 1 and "skipped 9 invalid lines" in warnings[0]
