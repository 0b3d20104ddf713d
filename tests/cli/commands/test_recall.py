"""`repoagent recall`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.apply_patch import Ask, Done
from tests.conftest import GitRepo

CACHE = "the cache is shared by all readers, so readConfig must not change what it gives back"


@pytest.fixture
def remembered(repo: GitRepo) -> GitRepo:
    for file, text in (("src/app.py", CACHE), ("src/naïve dir/b.py", "kein Cache\x1b[31m")):
        folder = f".repoagent/memory/{file.replace('/', '-')}-1a2b"
        repo.write(f"{folder}/identity.json", json.dumps({"version": 1, "path": file}))
        repo.write(f"{folder}/notes.md", f"# Notes\n\n- 2026-11-01: {text}\n")
    return repo


@pytest.mark.soak
def test_bad_input_is_one_sentence(remembered: GitRepo, ask: Ask) -> None:
    for words, code, sentence in (
        ("", 2, "the query is empty"),
        ("\t", 2, "the query is empty"),
        ("?!", 2, "the query '?!' has no words to search for"),
        ("cache -n 0", 2, "'--limit': 0 is not in the range x>=1"),
        ("cache --kind nope", 2, "'nope' is not one of"),
        ("cache --file ../x", 2, "../x is outside the work tree"),
        ("nowhere", 1, "nothing found for 'nowhere'"),
        ("cache --kind edits", 1, "nothing found for 'cache' with this --kind or --file"),
    ):
        done = ask(*words.split(" "))
        assert (done.code, done.out) == (code, "") and sentence in done.err
        assert len(done.err.strip().splitlines()) <= 3


def test_nothing_is_remembered_yet(repo: GitRepo, ask: Ask, tmp_path: Path) -> None:
    assert "nothing is remembered in this repository yet" in ask("cache", code=1).err
    assert not (repo.top / ".repoagent").exists()
    assert "not in a git work tree" in ask("cache", cwd=tmp_path, code=2).err


def test_plain_text_and_json(remembered: GitRepo, ask: Ask) -> None:
    shown = f"src/app.py  note  2026-11-01\n    {CACHE}\n    .repoagent/memory/src-app.py-1a2b/notes.md:3\n"
    assert ask("read_config", "--file", ".", cwd=remembered.top / "src") == Done(0, shown, "")
    result = ask("cache readers", "--json", "-n", "1").json
    assert result["version"] == 1
    (hit,) = result["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["cache", "readers"]
    assert (hit["file"], hit["kind"], hit["date"], hit["line"]) == ("src/app.py", "note", "2026-11-01", 3)
    assert Path(hit["path"]).read_text().splitlines()[2].endswith(hit["snippet"])
    assert ask("nowhere", "--json", code=1).json["hits"] == []


def test_other_files_of_a_result_are_counted(remembered: GitRepo, ask: Ask) -> None:
    record = {"version": 1, "id": "0a1b", "time": "2026-10-12T08:00:00Z", "request": "rename the timeout"}
    for folder in (remembered.top / ".repoagent/memory").iterdir():
        (folder / "edits.jsonl").write_text(json.dumps(record) + "\n")
    first = ask("timeout").out.splitlines()[0]
    assert first.endswith("  edit  2026-10-12  and 1 more file")
