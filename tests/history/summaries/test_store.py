"""Summaries as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repoagent.errors import Refused
from repoagent.history.commit_details import Step
from repoagent.history.log import FileCommit
from repoagent.history.summary_store import (
    Summary,
    add_saved,
    add_summaries,
    from_dict,
    one_line,
    read_by_patch,
    read_summary,
    to_dict,
    write_summary,
)

ID, OTHER, PATCH = "ab" * 20, "cd" * 20, "12" * 20
SUMMARY = Summary(ID, "adds f", {"a.py": "adds f to a"}, PATCH, "anthropic/x", "2026-01-01T00:00:00+00:00")


def step(commit: str = ID, path: str = "a.py") -> Step:
    return Step(FileCommit(commit, commit[:7], "A", "2026-01-01", "s", 1, 1, path))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_summary(tmp_path, ID) is None
    write_summary(tmp_path, SUMMARY)
    assert read_summary(tmp_path, ID) == SUMMARY
    assert read_by_patch(tmp_path, PATCH) == SUMMARY
    assert read_by_patch(tmp_path, OTHER) is None
    assert json.loads((tmp_path / ID[:2] / f"{ID[2:]}.json").read_text())["version"] == 1


def test_a_line_is_that_of_the_file_else_that_of_the_commit(tmp_path: Path) -> None:
    steps = add_summaries([step(), step(path="b.py"), step(OTHER)], {ID: SUMMARY})
    assert [s.summary for s in steps] == ["adds f to a", "adds f", ""]
    write_summary(tmp_path, SUMMARY)
    assert [s.summary for s in add_saved(tmp_path, [step(), step(OTHER)])] == ["adds f to a", ""]


def test_without_a_patch_only_the_commit_finds_it(tmp_path: Path) -> None:
    write_summary(tmp_path, Summary(ID, "adds f"))
    assert not (tmp_path / "patches").exists()
    for odd in ("", "../" * 13 + "x", "g" * 40):
        assert read_by_patch(tmp_path, odd) is None


def test_a_broken_file_is_set_aside_and_a_newer_one_refused(tmp_path: Path) -> None:
    write_summary(tmp_path, SUMMARY)
    file = tmp_path / ID[:2] / f"{ID[2:]}.json"
    file.write_text("{")
    said: list[str] = []
    assert read_summary(tmp_path, ID, said.append) is None
    assert "broken" in said[0] and file.with_name(f"{file.name}.broken-1").exists()
    file.write_text('{"version": 99, "summary": "x"}')
    with pytest.raises(Refused, match="update repoagent"):
        read_summary(tmp_path, ID)
    assert add_saved(tmp_path, [step()])[0].summary == ""  # a prompt is whole without it


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / ".repoagent" / "summaries"
    (folder / ID[:2]).mkdir(parents=True)
    (tmp_path / "other.json").write_text('{"version": 1, "summary": "from elsewhere"}')
    (folder / ID[:2] / f"{ID[2:]}.json").symlink_to(tmp_path / "other.json")
    with pytest.raises(Refused):
        read_summary(folder, ID)
    assert add_saved(folder, [step()])[0].summary == ""


def test_what_others_wrote_is_cleaned_and_cut() -> None:
    found = from_dict(
        {"summary": "a\x1b[31m\nb" * 200, "files": {"x": "\u202eevil", "y": 3}, "patch": "no"}, ID
    )
    assert found is not None
    assert found.line.isprintable() and len(found.line) == 200
    assert found.files == {"x": "�evil"}
    assert found.patch == ""
    for nothing in ({}, {"summary": ""}, {"summary": 3}, {"summary": "\n"}):
        assert from_dict(nothing, ID) is None


@given(
    st.text(min_size=1).filter(lambda text: one_line(text) != ""),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3),
)
def test_a_summary_survives_as_data(line: str, files: dict[str, str]) -> None:
    first = from_dict({"summary": line, "files": files, "patch": PATCH, "model": "m", "date": "d"}, ID)
    assert first is not None
    assert from_dict(json.loads(json.dumps(to_dict(first))), ID) == first
