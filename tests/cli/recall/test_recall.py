"""`repoagent recall`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.program import run


def recall(cwd: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = run(["recall", *arguments], cwd, env=env)
    out, err = (data.decode("utf-8", "surrogateescape") for data in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(arguments, done.returncode, out, err)


def note(repo: GitRepo, file: str, text: str) -> None:
    folder = f".repoagent/memory/{file.replace('/', '-')}-1a2b"
    repo.write(f"{folder}/identity.json", json.dumps({"version": 1, "path": file}))
    repo.write(f"{folder}/notes.md", f"# Notes\n\n- 2026-11-01: {text}\n")


@pytest.fixture
def remembered(repo: GitRepo) -> GitRepo:
    note(
        repo,
        "src/app.py",
        "the cache is shared by all readers, so readConfig must not change what it gives back",
    )
    note(repo, "src/naïve dir/b.py", "kein Cache\x1b[31m")
    return repo


@pytest.mark.soak
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([""], 2, "the query is empty"),
        (["  "], 2, "the query is empty"),
        (["?!"], 2, "the query '?!' has no words to search for"),
        (["cache", "-n", "0"], 2, "'--limit': 0 is not in the range x>=1"),
        (["cache", "--kind", "nope"], 2, "'nope' is not one of"),
        (["cache", "--file", "../x"], 2, "../x is outside the work tree"),
        (["nowhere"], 1, "nothing found for 'nowhere'"),
        (["cache", "--kind", "edits"], 1, "nothing found for 'cache' with this --kind or --file"),
    ],
)
def test_bad_input_is_one_sentence(
    remembered: GitRepo, arguments: list[str], code: int, sentence: str
) -> None:
    done = recall(remembered.top, *arguments)
    assert (done.returncode, done.stdout) == (code, "") and sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 3


def test_nothing_is_remembered_yet(repo: GitRepo, tmp_path: Path) -> None:
    done = recall(repo.top, "cache")
    assert done.returncode == 1 and "nothing is remembered in this repository yet" in done.stderr
    assert not (repo.top / ".repoagent").exists()
    (tmp_path / "bare").mkdir()
    done = recall(tmp_path / "bare", "cache")
    assert done.returncode == 2 and "not in a git work tree" in done.stderr


def test_a_pipe_gets_plain_text(remembered: GitRepo) -> None:
    done = recall(remembered.top / "src", "read_config", "--file", ".")
    assert done.returncode == 0 and done.stdout.splitlines() == [
        "src/app.py  note  2026-11-01",
        "    the cache is shared by all readers, so readConfig must not change what it gives back",
        "    .repoagent/memory/src-app.py-1a2b/notes.md:3",
    ]
    assert done.stderr == ""


def test_json(remembered: GitRepo) -> None:
    result = json.loads(recall(remembered.top, "cache readers", "--json", "-n", "1").stdout)
    assert result["version"] == 1
    (hit,) = result["hits"]
    assert [hit["snippet"][start:end] for start, end in hit["marks"]] == ["cache", "readers"]
    assert (hit["file"], hit["kind"], hit["date"], hit["line"]) == ("src/app.py", "note", "2026-11-01", 3)
    assert Path(hit["path"]).read_text().splitlines()[2].endswith(hit["snippet"])
    done = recall(remembered.top, "nowhere", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["hits"] == []
