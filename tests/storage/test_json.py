"""JSON lines and JSON documents: broken, newer, foreign; and what is written is what is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.storage import json_files

_TEXT = st.text(st.characters(), max_size=20)  # lone surrogates too: names that are no UTF-8
_RECORDS = st.dictionaries(_TEXT, st.one_of(_TEXT, st.integers(), st.none(), st.booleans(), st.lists(_TEXT)))


@given(_RECORDS)
def test_a_record_comes_back_as_it_was(record: dict[str, Any]) -> None:
    line = json_files.dumps(record)
    assert b"\n" not in line
    assert json_files.parse(json_files.dumps({**record, "version": 1})) == {**record, "version": 1}


def test_lines_are_readable_where_they_can_be(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    json_files.append_record(path, {"name": "größe"})
    json_files.append_record(path, {"name": "odd\udcff"})
    assert "größe" in path.read_text()
    assert [record["name"] for record in json_files.read_records(path)] == ["größe", "odd\udcff"]


def test_broken_lines_are_skipped_and_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"n":1}\nnonsense\n[1]\n\xff\n\n{"n":2}\n' + b"[" * 100_000 + b'\n{"n":3')
    warnings: list[str] = []
    assert [record["n"] for record in json_files.read_records(path, warn=warnings.append)] == [1, 2]
    assert len(warnings) == 1 and "4 broken line(s)" in warnings[0] and "line 2" in warnings[0]
    json_files.append_record(path, {"n": 4})
    assert [record["n"] for record in json_files.read_records(path, warn=warnings.append)] == [1, 2, 4]


def test_a_last_line_without_newline_counts_when_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b'{"n":1}\n{"n":2}')
    warnings: list[str] = []
    assert len(list(json_files.read_records(tmp_path / "log", warn=warnings.append))) == 2 and not warnings
    assert list(json_files.read_records(tmp_path / "none")) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"version": "1"}',
        b'{"version": true}',
        b'{"version": 0}',
        b"[" * 100_000,
        b"\xff",
    ],
)
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
    before = path.read_bytes()
    with pytest.raises(Refused, match=r"index\.json has format version 3.*knows up to 2.*update"):
        json_files.read_document(path, version=2)
    assert path.read_bytes() == before
    assert json_files.read_document(path, version=3) == {"version": 3, "a": 1}
