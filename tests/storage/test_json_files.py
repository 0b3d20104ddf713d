"""Files of JSON lines, documents with a version, and the audit."""

from __future__ import annotations

import json
import multiprocessing
import re
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.storage import json_files
from repoagent.storage.layout import Layout

_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates too: names that are no UTF-8
_RECORDS = st.dictionaries(_TEXT, st.one_of(_TEXT, st.integers(), st.none(), st.booleans(), st.lists(_TEXT)))


@given(_RECORDS)
def test_a_record_round_trips(record: dict[str, Any]) -> None:
    assert b"\n" not in json_files.dumps(record)
    assert json_files.parse_document(json_files.dumps({**record, "version": 1})) == {**record, "version": 1}


@dataclass(frozen=True)
class Node:
    kind: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    cost: float | None = None


def test_a_dataclass_is_decoded_without_unknown_fields() -> None:
    node = Node("b", (1, 2), {"x": Node(cost=0.5), "y": Node(cost=2)})
    assert json_files.decode(Node, json.loads(json.dumps({**asdict(node), "unknown": 1}))) == node


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "c"}, {"kind": []}, {"sizes": [True]}, {"sizes": [None]}, {"sizes": ""}, {"nodes": []},
        {"nodes": {"x": 1}}, {"nodes": {"x": {"unknown": 1}}}, {"cost": "1"}, {"cost": True},
    ],
)  # fmt: skip
def test_a_field_of_a_wrong_type_is_named(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"{next(iter(fields))} has the invalid value"):
        json_files.decode(Node, fields)


def test_broken_lines_are_skipped_and_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"n":1}\nnonsense\n[1]\n\xff\n\n{"n":2}\n' + b"[" * 100_000 + b'\n{"n":3')
    warnings: list[str] = []
    assert [record["n"] for record in json_files.read_records(path, warn=warnings.append)] == [1, 2]
    assert len(warnings) == 1 and "4 broken line(s)" in warnings[0] and "line 2" in warnings[0]
    json_files.append_record(path, {"n": 4})
    assert [record["n"] for record in json_files.read_records(path, warn=warnings.append)] == [1, 2, 4]
    path.write_bytes(b'{"n":1}\n{"n":2}')  # the last line is complete
    assert len(list(json_files.read_records(path, warn=warnings.append))) == 2 == len(warnings)
    assert list(json_files.read_records(tmp_path / "none")) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"version": "1"}', b'{"version": true}', b'{"version": 0}', b"[" * 100_000, b"\xff"],
)  # fmt: skip
def test_a_broken_document_is_set_aside_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "index.json"
    path.write_bytes(data)
    warnings: list[str] = []
    assert json_files.read_document(path, version=1, warn=warnings.append) is None
    assert not path.exists()
    assert (tmp_path / "index.json.broken-1").read_bytes() == data
    assert len(warnings) == 1 and "index.json" in warnings[0] and "broken-1" in warnings[0]


def test_a_newer_document_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    json_files.write_document(path, {"a": 1}, version=3)
    with pytest.raises(
        Refused, match=r"index\.json has format version 3.*newer than the supported 2.*update"
    ):
        json_files.read_document(path, version=2)
    assert json_files.read_document(path, version=3) == {"version": 3, "a": 1}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / ".git").mkdir()
    return Layout(tmp_path / ".repoagent", tmp_path / ".git")


def test_an_event_is_one_line_without_keys_and_long_texts(layout: Layout) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    event = {"kind": "command", "command": f"echo '{key}\n'", "at": Path("x"), "more": [1, {"a": None}]}
    json_files.record(layout, {**event, "what": "x" * 10_000})
    line = json.loads(layout.audit.read_text())
    assert list(line)[:3] == ["version", "time", "kind"] and line["version"] == 1
    assert re.fullmatch(r"echo '<<secret \w+>>\n'", line["command"])
    assert line["at"] == "x" and line["more"] == [1, {"a": None}]
    assert "(6000 characters more)" in line["what"]
    assert layout.audit.stat().st_mode & 0o077 == 0 and (layout.root / ".gitignore").exists()


def write(root: Path, git: Path, worker: int) -> None:
    for number in range(25):
        json_files.record(Layout(root, git), {"worker": worker, "n": number, "text": "x" * 3_000})


def test_several_processes_lose_nothing(layout: Layout) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write, args=(layout.root, layout.git_dir, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = layout.audit.read_bytes().splitlines()
    assert len({(event["worker"], event["n"]) for event in map(json.loads, lines)}) == 100
    assert [worker.exitcode for worker in workers] == [0] * 4
