"""`repoagent memory export`, `import` and `gc`."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from repoagent.llm.conversation import append_turns
from tests.cli.apply_patch import Ask
from tests.conftest import GitRepo
from tests.memory.archive.conftest import turns
from tests.memory.conftest import text, workspace_at
from tests.program import run


@pytest.fixture
def remembered(repo: GitRepo) -> GitRepo:
    repo.write("src/b.py", text("b"))
    repo.commit("one more")
    for path in ("a.txt", "src/b.py"):
        workspace_at(repo.top).remember(path).notes.write_text(f"# Notes\n\n- about {path}\n")
    return repo


@pytest.fixture
def memory(in_process: Ask) -> Ask:
    """`repoagent memory ARGUMENTS` in this process, at the top or in `cwd`."""
    return partial(in_process, "memory")


@pytest.mark.soak
def test_a_team_shares_what_it_learned(remembered: GitRepo, memory: Ask, tmp_path: Path) -> None:
    done = memory("export", "-o", "../team.tar.gz")
    assert (done.code, done.out) == (0, "") and "2 memories, " in done.err
    team = tmp_path / "team.tar.gz"
    assert team.stat().st_mode & 0o777 == 0o600
    assert run(["memory", "export", ".."], remembered.top / "src").stdout == team.read_bytes()
    two = tmp_path / "two"
    remembered.git("clone", "-q", str(remembered.top), str(two))
    done = memory("import", "../team.tar.gz", "--dry-run", cwd=two)
    assert done.code == 0 and "1 note" in done.out and not (two / ".repoagent").exists()
    done = memory("import", "-", "--json", stdin=team.read_bytes(), cwd=two)
    assert done.code == 0 and done.json["version"] == 1 and done.err == ""
    assert {(one["current_path"], one["outcome"], one["notes"]) for one in done.json["memories"]} == {
        ("a.txt", "new", 1), ("src/b.py", "new", 1)
    }  # fmt: skip
    done = memory("import", "../team.tar.gz", cwd=two)
    assert done.code == 1 and done.out.count("known") == 2 and "2 memories: 2 known" in done.err


@pytest.mark.soak
def test_errors_are_one_sentence(remembered: GitRepo, memory: Ask, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"nothing")
    before = sorted(remembered.top.rglob("*"))
    for code, words, message in (
        (3, "import ../x.tar.gz", "is not a memory archive"),
        (2, "export README.md", "README.md has no memory"),
        (3, "export -o src", "is not a regular file"),
    ):
        done = memory(*words.split())
        assert (done.code, done.err.count("\n")) == (code, 1) and message in done.err
    assert "no file for the archive" in memory("export", "--json", code=2).json["error"]["message"]
    assert sorted(remembered.top.rglob("*")) == before


@pytest.mark.soak
def test_gc_lists_then_archives_and_import_restores(remembered: GitRepo, memory: Ask) -> None:
    folder = remembered.top / ".repoagent/memory"
    remembered.git("rm", "-q", "src/b.py")
    remembered.git("commit", "-q", "--amend", "--allow-empty", "-m", "gone")
    remembered.git("reflog", "expire", "--expire=now", "--all")
    assert memory("gc").code == 1
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - 9e6,) * 2)
    done = memory("gc")
    assert done.code == 0 and "orphan" in done.out
    assert "do it with `repoagent memory gc --apply`" in done.err
    done = memory("gc", "--apply", "--json")
    one = done.json["memories"][0]
    assert done.code == 0 and one["verdict"] == "archived" and one["path"] == "src/b.py"
    assert memory("gc").code == 1
    assert memory("import", one["archive"]).code == 0
    assert (folder / one["memory"] / "notes.md").read_text() == "# Notes\n\n- about src/b.py\n"


@pytest.mark.soak
def test_keep_days(remembered: GitRepo, memory: Ask) -> None:
    about = workspace_at(remembered.top).remember("a.txt")
    append_turns(about.conversation, *turns("old", "secret words", "2020-01-01T00:00:00+00:00"))
    assert memory("gc").code == 1
    remembered.git("config", "repoagent.conversations.keepDays", "30")
    assert "would delete entries older than 30 days: 1 exchange" in memory("gc", code=0).err
    assert "secret words" in about.conversation.read_text()
    assert memory("gc", "--apply").code == 0
    assert "secret words" not in about.conversation.read_text()
    assert not list(about.folder.rglob("conversation-*"))
