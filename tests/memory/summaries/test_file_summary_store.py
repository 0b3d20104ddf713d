"""Summaries as files: read back as written, corrected by hand, broken, foreign, written twice at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.llm.model import printable
from repoagent.memory import file_summary_store as store
from repoagent.memory.file_summary_store import StoredSummary, SummaryCache, SummaryPart, SummaryRecord
from repoagent.storage.layout import Layout

KEY = "0123456789abcdef" * 4
TEXT = "It is one.\n\n- main: starts it"
SAID = StoredSummary(TEXT, "src/app.py, lines 1-3", "test/x", "2026-11-22T11:09:14+00:00")


@settings(max_examples=30)
@given(st.text(), st.text())
def test_a_summary_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, text: str, about: str) -> None:
    text = printable(text.replace("\r", "\n")).strip()
    if not text or text.encode("utf-8", "ignore").decode() != text:
        return
    folder = tmp_path_factory.mktemp("kept")
    store.write_summary(folder, KEY, StoredSummary(text, about))
    found = store.read_summary(folder, KEY)
    assert found is not None and (found.text, found.edited) == (text, False)


def test_a_file_is_readable_text_and_changed_line_breaks_are_not_a_correction(tmp_path: Path) -> None:
    store.write_summary(tmp_path, KEY, SAID)
    place = store.place_of(tmp_path, KEY)
    data = place.read_bytes()
    assert data.startswith(b"version: 1\nabout: src/app.py, lines 1-3\nmodel: test/x\n")
    assert data.endswith(b"\n\nIt is one.\n\n- main: starts it\n")
    folded = data.replace(b"It is one.", b"It is\none.")
    for changed in (data.replace(b"\n", b"\r\n"), folded, data + b"  \n\n", b"\xef\xbb\xbf" + data):
        place.write_bytes(changed)
        found = store.read_summary(tmp_path, KEY)
        assert found is not None and not found.edited, changed


@pytest.mark.parametrize(
    "data",
    [b"", b"no head at all\n", b"version: 1\nabout: x\n\n   \n", b"version: 0\n\ntext\n", b"version: one\n\ntext\n",
     b"version: 1\nand a line\n\ntext\n", b"\xff\xfe\x00", b"version: \xd9\xa1\n\ntext\n"],
)  # fmt: skip
def test_a_broken_file_is_set_aside_by_name(tmp_path: Path, data: bytes) -> None:
    place = store.place_of(tmp_path, KEY)
    place.parent.mkdir(parents=True)
    place.write_bytes(data)
    warnings: list[str] = []
    assert store.read_summary(tmp_path, KEY, warnings.append) is None
    assert place.with_name(f"{place.name}.broken-1").read_bytes() == data
    assert len(warnings) == 1 and str(place) in warnings[0]


def test_a_newer_one_and_a_link_are_refused(tmp_path: Path) -> None:
    place = store.place_of(tmp_path, KEY)
    place.parent.mkdir(parents=True)
    place.write_text("version: 2\n\ntext\n")
    with pytest.raises(Refused, match="update repoagent"):
        store.read_summary(tmp_path, KEY)
    place.unlink()
    place.symlink_to("/etc/passwd")
    with pytest.raises(Refused, match="not a regular file"):
        store.read_summary(tmp_path, KEY)


def test_a_concurrently_stored_summary_stays(tmp_path: Path) -> None:
    layout = Layout(tmp_path / ".repoagent", tmp_path / ".git")
    mine, theirs = SummaryCache(layout), SummaryCache(layout)
    assert mine.known(KEY) is None and theirs.known(KEY) is None
    theirs.keep(KEY, SAID)
    assert mine.keep(KEY, StoredSummary("It is another.")).text == SAID.text
    assert mine.known(KEY) == theirs.known(KEY)
    place = store.place_of(layout.summaries / "files", KEY)
    place.write_text(place.read_text().replace("one", "corrected"))
    anew = SummaryCache(layout, refresh=True)
    assert anew.keep(KEY, StoredSummary("It is another.")).text.startswith("It is corrected.")


def test_a_record_reads_back_equal_and_a_broken_one_is_none(tmp_path: Path) -> None:
    parts = SummaryPart(0, 2, 1, 1, ("a",), "3" * 64), SummaryPart(2, 6, 1, 1, ("a",), "4" * 64)
    record = SummaryRecord("src/a b.py", "1" * 64, "2" * 64, 150, parts)
    store.write_record(tmp_path, record)
    assert store.read_record(tmp_path, "src/a b.py") == record
    assert store.read_record(tmp_path, "src/a-b.py") is None
    (place,) = (tmp_path / "paths").iterdir()
    good = place.read_text()
    for spoiled in ('"start": 2', '"start": "x"'), ('"parts"', '"pieces"'), ("2222", "../x"):
        place.write_text(good.replace(*spoiled))
        assert store.read_record(tmp_path, "src/a b.py") is None
