"""A manipulated or broken index results in one sentence, and no file changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repoagent.errors import RepoagentError
from repoagent.split.folder_index import base_bytes, edited_segments, read_index, segment_base
from repoagent.split.folder_writer import create_split
from repoagent.split.refresh import refresh_split
from repoagent.split.source import SourceText, SplitOptions
from tests.conftest import GitRepo
from tests.split.helpers import SOURCE, text

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return create_split(text(tmp_path), SplitOptions(target=300), tmp_path / "out").folder


def put(place: tuple[str | int, ...], value: object) -> Change:
    def change(content: dict[str, Any]) -> None:
        parent: Any = content
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = value

    return change


FILES = ("../a.py", "/etc/passwd", "..", "sub/002.py", "index.json", "002.py\n", "\u0660.py")  # invalid


@pytest.mark.soak
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put(("version",), 2), "has format version 2, newer than the supported 1"),
        (put(("version",), "1"), "not a JSON object with a version"),
        (lambda c: c.pop("source"), "source is missing"),
        (put(("source", "path"), "../a.py"), "remove '..'"),
        (put(("source", "path"), "/etc/../etc/passwd"), "is not normalized"),
        (put(("source", "path"), "x/.GIT/hooks/y"), "is in a git directory"),
        (put(("source", "path"), "a\0b"), "is not a path inside"),
        *(
            (put(("source", "size"), size), "size has the invalid value")
            for size in (10**400, -1, True, 1e300)
        ),
        (put(("source", "size"), len(SOURCE) + 1), "its segments end at byte"),
        (put(("source", "sha256"), "0" * 63), "sha256 has the invalid value"),
        (put(("source", "blob"), "0" * 41), "blob has the invalid value"),
        *(
            (put(("source", "encoding"), name), "encoding has the invalid value")
            for name in ("utf-7", ["utf-8"])
        ),
        (put(("target",), 0), "target has the invalid value"),
        (put(("segments",), {}), "segments has the invalid value"),
        (put(("segments", 1), 7), "in segment 2, it is not an object"),
        *((put(("segments", 1, "file"), name), "file has the invalid value") for name in FILES),
        *((put(("segments", 1, "file"), name), f"{name} is named twice") for name in ("001.py", "001.PY")),
        (put(("segments", 1, "start"), 5), "segment 2 does not follow"),
        (put(("segments", 0, "start"), 5), "segment 1 does not follow"),
        (put(("segments", 1, "end"), 0), "segment 2 does not follow"),
        (lambda c: c["segments"].insert(0, {**c["segments"][0], "file": "0.py", "end": 0}), "segment 1 does"),
        (put(("segments", 1, "sha256"), "x" * 64), "sha256 has the invalid value"),
        *((put(("segments", 1, "first_line"), line), "segment 2 does not follow") for line in (0, 10**9)),
        (put(("segments", 1, "boundary"), "magic"), "boundary has the invalid value"),
        (put(("segments", 1, "scope"), [1]), "segment 2 does not follow"),
        (put(("segments", 1, "symbols"), [{}]), "name is missing"),
        (lambda c: c["segments"].pop(1), "segment 2 does not follow"),
        (lambda c: c["segments"].pop(), "its segments end at byte"),
        (lambda c: c["segments"].insert(1, c["segments"][0]), "segment 2 does not follow"),
        (put(("pending",), {"../x": ""}), "file has the invalid value"),
        (put(("pending",), {"001.py": "zz"}), "based_on has the invalid value"),
    ],
)
def test_an_invalid_index_is_refused_with_its_error(folder: Path, change: Change, sentence: str) -> None:
    path = folder / "index.json"
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for act in (read_index, lambda where: refresh_split(where, where)):
        with pytest.raises(RepoagentError) as caught:
            act(folder)
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 1', b"[" * 100_000])
def test_an_index_that_is_not_json_is_refused(folder: Path, data: bytes) -> None:
    (folder / "index.json").write_bytes(data)
    with pytest.raises(RepoagentError, match="not a JSON object with a version"):
        read_index(folder / "index.json")


def test_an_index_in_a_repository_cannot_name_an_outside_file(repo: GitRepo, tmp_path: Path) -> None:
    made = create_split(SourceText(str(tmp_path / "a.py"), SOURCE), SplitOptions(), repo.top / "parts")
    with pytest.raises(RepoagentError, match="has the absolute path"):
        read_index(made.folder)


def test_missing_and_irregular_files_are_named(folder: Path, tmp_path: Path) -> None:
    first = folder / "001.py"
    first.rename(tmp_path / "elsewhere")
    with pytest.raises(RepoagentError, match=r"001\.py is missing; restore it"):
        read_index(folder)
    for irregular in (lambda: first.symlink_to(tmp_path / "elsewhere"), lambda: os.mkfifo(first)):
        first.unlink(missing_ok=True)
        irregular()
        with pytest.raises(RepoagentError, match=r"001\.py is not a regular file"):
            read_index(folder)
    with pytest.raises(RepoagentError, match="no split at"):
        read_index(tmp_path)


def test_a_changed_base_is_refused(folder: Path) -> None:
    index = read_index(folder)
    assert base_bytes(index) == SOURCE
    (folder / "base").write_bytes(SOURCE.replace(b"f1", b"g1"))
    with pytest.raises(RepoagentError, match="no longer contains the text that was split"):
        base_bytes(index)
    (folder / "base").unlink()
    with pytest.raises(RepoagentError, match="no longer contains the text that was split"):
        refresh_split(folder, folder)


def test_edited_segments_are_detected_by_their_bytes(folder: Path) -> None:
    index = read_index(folder / "index.json")
    assert index == read_index(folder) and edited_segments(index) == []
    assert b"".join((folder / segment.file).read_bytes() for segment in index.segments) == SOURCE
    second = index.segments[1]
    (folder / second.file).write_bytes(b"mine\n")
    assert edited_segments(index) == [(second, b"mine\n")]
    assert segment_base(index, second) == SOURCE[second.start : second.end]
