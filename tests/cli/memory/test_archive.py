"""`repoagent memory export`, `import` and `gc`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.memory.conftest import desk_at, text


def run(top: Path, *args: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    command = [sys.executable, "-m", "repoagent", "memory", *args]
    done = subprocess.run(command, cwd=top, input=stdin, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def remembered(repo: GitRepo) -> GitRepo:
    repo.write("src/b.py", text("b"))
    repo.commit("one more")
    context = desk_at(repo.top)
    for path in ("a.txt", "src/b.py"):
        memory = context.remember(path)
        memory.notes.write_text(f"# Notes\n\n- about {path}\n")
    return repo


@pytest.mark.soak
def test_a_team_shares_what_it_learned(remembered: GitRepo, tmp_path: Path) -> None:
    code, out, err = run(remembered.top, "export", "-o", "../team.tar.gz")
    assert (code, out) == (0, b"") and "2 memories, " in err
    assert (tmp_path / "team.tar.gz").stat().st_mode & 0o777 == 0o600
    assert run(remembered.top / "src", "export", "..")[1] == (tmp_path / "team.tar.gz").read_bytes()
    remembered.git("clone", "-q", str(remembered.top), str(tmp_path / "two"))
    two = tmp_path / "two"
    code, out, _ = run(two, "import", "../team.tar.gz", "--dry-run")
    assert code == 0 and b"1 note" in out and not (two / ".repoagent").exists()
    code, out, err = run(two, "import", "-", "--json", stdin=(tmp_path / "team.tar.gz").read_bytes())
    value = json.loads(out)
    assert code == 0 and value["version"] == 1 and err == ""
    assert {(one["current_path"], one["outcome"], one["notes"]) for one in value["memories"]} == {
        ("a.txt", "new", 1), ("src/b.py", "new", 1)
    }  # fmt: skip
    code, out, err = run(two, "import", "../team.tar.gz")
    assert code == 1 and out.count(b"known") == 2 and "2 memories: 2 known" in err


@pytest.mark.soak
def test_errors_are_one_sentence(remembered: GitRepo, tmp_path: Path) -> None:
    top = remembered.top
    (tmp_path / "x.tar.gz").write_bytes(b"nothing")
    before = sorted(top.rglob("*"))
    for code, args, words in (
        (3, ("import", "../x.tar.gz"), "is not a memory archive"),
        (2, ("export", "README.md"), "README.md has no memory"),
        (3, ("export", "-o", "src"), "is not a regular file"),
    ):
        result, _, err = run(top, *args)
        assert (result, err.count("\n")) == (code, 1) and words in err
    code, out, _ = run(top, "export", "--json")
    assert code == 2 and "no file for the archive" in json.loads(out)["error"]["message"]
    assert sorted(top.rglob("*")) == before


@pytest.mark.soak
def test_gc_lists_then_archives_and_import_restores(remembered: GitRepo) -> None:
    top = remembered.top
    remembered.git("rm", "-q", "src/b.py")
    remembered.git("commit", "-q", "--amend", "--allow-empty", "-m", "gone")
    remembered.git("reflog", "expire", "--expire=now", "--all")
    assert run(top, "gc")[0] == 1
    for path in (top / ".repoagent/memory").rglob("*"):
        os.utime(path, (time.time() - 9e6,) * 2)
    code, out, err = run(top, "gc")
    assert code == 0 and b"orphan" in out and "do it with `repoagent memory gc --apply`" in err
    code, out, _ = run(top, "gc", "--apply", "--json")
    one = json.loads(out)["memories"][0]
    assert code == 0 and one["verdict"] == "archived" and one["path"] == "src/b.py"
    assert run(top, "gc")[0] == 1
    assert run(top, "import", one["archive"])[0] == 0
    assert (
        top / ".repoagent/memory" / one["memory"] / "notes.md"
    ).read_text() == "# Notes\n\n- about src/b.py\n"


@pytest.mark.soak
def test_keep_days(remembered: GitRepo) -> None:
    from repoagent.llm.conversation import append
    from tests.memory.archive.conftest import turns

    memory = desk_at(remembered.top).remember("a.txt")
    append(memory.conversation, *turns("old", "secret words", "2020-01-01T00:00:00+00:00"))
    assert run(remembered.top, "gc")[0] == 1
    remembered.git("config", "repoagent.conversations.keepDays", "30")
    code, _, err = run(remembered.top, "gc")
    assert code == 0 and "would delete entries older than 30 days: 1 exchange" in err
    assert "secret words" in memory.conversation.read_text()
    assert run(remembered.top, "gc", "--apply")[0] == 0
    assert "secret words" not in memory.conversation.read_text() and not list(
        memory.folder.rglob("conversation-*")
    )
