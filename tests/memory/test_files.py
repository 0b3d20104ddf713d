"""The files of a memory: broken, foreign, newer, forged; edits and notes by hand."""

from __future__ import annotations

import json
import os
import zlib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.llm.model import Usage
from repoagent.memory.edit_records import EditRecord, append_edit, read_edits
from repoagent.memory.identity.record import Identity, Rekeying, Seen, from_dict, to_dict
from repoagent.memory.identity.similarity import last_contents
from repoagent.memory.identity.store import memories, remember, resolve
from repoagent.memory.notes import Note, add_note, read_notes
from tests.memory.conftest import Desk, text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"version": 1}',
        b'{"version": 1, "path": "a.py", "keys": []}',
        b'{"version":1,"path":"x","blobs":[1]}',
    ],
)
def test_a_broken_identity_is_set_aside_and_the_others_work(desk: Desk, content: bytes) -> None:
    memory = desk.resolve("a.py")
    assert memory is not None
    add_note(memory.notes, "worth keeping")
    (memory.folder / "identity.json").write_bytes(content)
    warnings: list[str] = []
    data = text("a")
    assert resolve(desk.layout, desk.worktree, "a.py", data, warn=warnings.append) is None
    assert len(warnings) == 1 and str(memory.folder / "identity.json") in warnings[0]
    assert (memory.folder / "identity.json.broken-1").read_bytes() == content
    assert desk.folder("b.py") is not None
    assert read_notes(memory.notes)[0].text == "worth keeping"
    assert remember(desk.layout, desk.worktree, "a.py", data, warn=warnings.append).folder != memory.folder


def test_a_newer_identity_is_named_and_not_touched(desk: Desk) -> None:
    memory = desk.resolve("a.py")
    assert memory is not None
    file = memory.folder / "identity.json"
    value = json.loads(file.read_bytes())
    file.write_text(json.dumps({**value, "version": 2}))
    before = file.read_bytes()
    warnings: list[str] = []
    assert resolve(desk.layout, desk.worktree, "a.py", text("a"), warn=warnings.append) is None
    assert len(warnings) == 1 and "identity.json has format version 2" in warnings[0]
    assert desk.worktree and file.read_bytes() == before


def test_a_linked_memory_folder_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.layout.memory.rename(tmp_path / "outside")
    desk.layout.memory.symlink_to(tmp_path / "outside")
    for attempt in (desk.folder, desk.remember):
        with pytest.raises(Refused, match="memory is a symbolic link"):
            attempt("a.py")


def test_hostile_folders_are_not_followed(desk: Desk, tmp_path: Path) -> None:
    mine = desk.resolve("a.py")
    assert mine is not None
    outside = tmp_path / "outside"
    mine.folder.rename(outside)
    mine.folder.symlink_to(outside)
    os.mkfifo(desk.layout.memory / "fifo")
    (desk.layout.memory / "odd").mkdir()
    os.mkfifo(desk.layout.memory / "odd" / "identity.json")
    warnings: list[str] = []
    found = memories(desk.layout, warn=warnings.append)
    assert [memory.identity.path for memory in found] == ["b.py"]
    assert len(warnings) == 1 and "odd/identity.json is not a regular file" in warnings[0]
    with pytest.raises(Refused):
        append_edit(mine.edits, EditRecord("1", "", "", "", "", ""))
    assert not (outside / "edits.jsonl").exists()


@pytest.mark.parametrize("packed", [b"", b"not zlib", zlib.compress(b"\0" * 50_000_000)])
def test_a_forged_last_content_costs_neither_memory_nor_work(desk: Desk, packed: bytes) -> None:
    mine = desk.resolve("a.py")
    assert mine is not None
    (mine.folder / "seen.z").write_bytes(packed)
    assert sum(map(len, last_contents(mine.folder, desk.worktree))) <= 4 * 1024 * 1024
    assert desk.folder("a.py") == mine.folder.name  # the blob is enough


def test_edits_by_hand_are_taken_as_they_are(desk: Desk) -> None:
    mine = desk.resolve("a.py")
    assert mine is not None
    file = mine.folder / "identity.json"
    value = json.loads(file.read_bytes())
    value["path"] = "lost.py"
    file.write_text(json.dumps(value, indent=4))
    (desk.worktree.top / "lost.py").write_bytes(text("a"))
    (desk.worktree.top / "a.py").unlink()
    assert desk.folder("lost.py") == mine.folder.name
    mine.folder.rename(mine.folder.with_name("renamed by hand"))
    assert desk.folder("lost.py") == "renamed by hand"


_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
_TEXTS = st.text(st.characters(), min_size=1, max_size=10)


@given(
    st.builds(
        Identity,
        path=_NAMES,
        earlier_paths=st.lists(_NAMES).map(tuple),
        keys=st.dictionaries(_TEXTS, _TEXTS),
        blobs=st.lists(_TEXTS).map(tuple),
        commit=st.none() | _TEXTS,
        rekeyings=st.lists(st.builds(Rekeying, _TEXTS, _TEXTS, _TEXTS, _TEXTS, _TEXTS)).map(tuple),
        strangers=st.lists(_NAMES).map(tuple),
        places=st.dictionaries(_NAMES, st.builds(Seen, _NAMES, _TEXTS)),
    )
)
def test_an_identity_reads_back_equal(identity: Identity) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(identity)))) == identity


_VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from(
            ["path", "keys", "blobs", "commit", "rekeyings", "earlier_paths", "places", "strangers"]
        ),
        _VALUES,
    )
)
def test_any_json_is_an_identity_or_none(value: dict[str, Any]) -> None:
    identity = from_dict(value)
    assert identity is None or from_dict(to_dict(identity)) == identity


def test_keys_do_not_pile_up() -> None:
    identity = Identity("a")
    for number in range(100):
        identity = identity.keyed(f"1:{number}", "/work").keyed(f"{number}:7", "/elsewhere")
    assert identity.keys["1:99"] == "/work" and len(identity.keys) <= 8


# -- edits and notes --


def record(number: int, **changed: Any) -> EditRecord:
    fields = {
        "id": f"id{number}",
        "time": f"2026-11-{number:02}T10:00:00+00:00",
        "path": "a.py",
        "request": f"request {number}",
        "source_blob": "a" * 40,
        "result_blob": "b" * 40,
    }
    return EditRecord(**{**fields, **changed})


def test_edit_records_come_back_and_the_last_state_counts(tmp_path: Path) -> None:
    path = tmp_path / "edits.jsonl"
    first = record(
        1, usage=Usage(1, 2, 3, 4, True), cost=0.25, levels=("exact", "trailing space"), commit="c" * 40
    )
    append_edit(path, first)
    append_edit(path, record(2, request="größer\nals \udcff"))
    append_edit(path, record(1, state="undone"))
    assert read_edits(path) == [record(1, state="undone"), record(2, request="größer\nals \udcff")]
    path.unlink()
    append_edit(path, first)
    assert read_edits(path) == [first]


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2}, {"version": None}, {"id": 1}, {"usage": []}, {"usage": {"unknown": 1}}, {"cost": "1"},
        {"levels": [1]}, {"commit": 1}, {"request": None},
    ],
)  # fmt: skip
def test_a_strange_edit_is_skipped_and_counted(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "edits.jsonl"
    append_edit(path, record(1))
    with path.open("a") as file:
        file.write(json.dumps({**record(2).to_dict(), **change}) + "\n")
    warnings: list[str] = []
    assert read_edits(path, warn=warnings.append) == [record(1)]
    assert len(warnings) == 1 and "1 invalid line(s)" in warnings[0]


def test_unknown_fields_of_an_edit_do_no_harm() -> None:
    assert EditRecord.from_dict({**record(1).to_dict(), "later": 1}) == record(1)


def test_notes_of_machines_and_people(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    assert read_notes(path) == ()
    note = add_note(path, "order\n matters ", blob="3f2a9c1" + "0" * 33, day=date(2026, 11, 21))
    assert str(note) == "- 2026-11-21 3f2a9c100000: order matters"
    with path.open("a") as file:
        file.write(
            "* by hand,\n  on two lines\n\n## A heading\n\na paragraph\nof two lines\n- 2026-11-22: dated"
        )
    add_note(path, "after a line without end", day=date(2026, 11, 23))
    assert read_notes(path) == (
        Note("order matters", "2026-11-21", "3f2a9c100000"),
        Note("by hand, on two lines"),
        Note("a paragraph of two lines"),
        Note("dated", "2026-11-22"),
        Note("after a line without end", "2026-11-23"),
    )
