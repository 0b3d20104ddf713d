"""What our own commands do to files: edit, undo, redo and apply; the memory stays with its file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repoagent.memory.edit_records import read_edits
from repoagent.memory.identity.store import read_memories
from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import Run, Script, diff, run, script
from tests.memory.conftest import text
from tests.memory.identity.matrix import Stage

__all__ = ["run", "script"]

CHANGE = diff("a.py", "-a says 0 on line 0", "+a shouts 0 on line 0", " a says 1 on line 1")


def renamed(old: str, new: str) -> str:
    return f"```diff\ndiff --git a/{old} b/{new}\nrename from {old}\nrename to {new}\n```\n"


def whole(sign: str, head: str, content: bytes) -> str:
    """A diff that adds ("+") or removes ("-") all lines."""
    body = "".join(f"{sign}{line}\n" for line in content.decode().splitlines())
    ranges = f"-1,{content.count(10)} +0,0" if sign == "-" else f"-0,0 +1,{content.count(10)}"
    return f"```diff\n{head}\n@@ {ranges} @@\n{body}```\n"


@pytest.fixture
def stage(repo: GitRepo) -> Stage:
    """`a.py` and `b.py`, committed; neither has a memory."""
    repo.commit("two files", **{"a.py": text("a"), "b.py": text("b")})
    return Stage(repo.top)


def called(stage: Stage, **paths: str) -> None:
    """The memories get short names, by the path that each has now."""
    by_path = {each.identity.path: each.folder.name for each in read_memories(stage.layout)}
    stage.folders.update({name: by_path[path] for name, path in paths.items()})


@pytest.mark.soak
def test_edit_undo_redo_and_apply(stage: Stage, run: Run, script: Script, tmp_path: Path) -> None:
    script.replies(CHANGE)
    run("edit", "a.py", "shout", "--yes", code=0)
    called(stage, a="a.py")
    stage.expect({"a.py": "a"})
    for command in ("undo", "redo"):
        run(command, code=0)
        stage.expect({"a.py": "a"})
    stage.sh("mv b.py t; mv a.py b.py; mv t a.py")  # and an edit of what is at its name now
    stage.repo.commit("swap")
    script.replies(diff("b.py", " a shouts 0 on line 0", "-a says 1 on line 1", "+a shouts 1 on line 1"))
    run("edit", "b.py", "shout again", "--yes", code=0)
    stage.expect({"b.py": "a"})
    assert read_edits(stage.layout.memory / stage.folders["a"] / "edits.jsonl")[-1].request == "shout again"
    patch = tmp_path / "fix.patch"
    patch.write_text(diff("a.py", "-b says 0 on line 0", "+b whispers 0 on line 0").partition("\n")[2][:-4])
    assert program.run(["apply", "-y", str(patch)], stage.top).returncode == 0
    called(stage, b="a.py")
    run("undo", code=0)
    stage.expect({"b.py": "a", "a.py": "b"})


@pytest.mark.soak
def test_an_edit_that_renames_and_is_undone(stage: Stage, run: Run, script: Script) -> None:
    script.replies(CHANGE)
    run("edit", "a.py", "shout", "--yes", code=0)
    called(stage, a="a.py")
    script.replies(renamed("a.py", "c.py"))
    run("edit", "a.py", "c.py", "rename it", "--yes", "--create", code=0)
    stage.expect({"c.py": "a"}, a="renamed from a.py")
    run("undo", code=0)
    stage.expect({"a.py": "a"}, a="renamed from c.py")
    run("redo", code=0)
    stage.expect({"c.py": "a"}, a="renamed from a.py")


def test_an_edit_that_renames_a_file_without_a_memory_and_is_undone(
    stage: Stage, run: Run, script: Script
) -> None:
    script.replies(renamed("a.py", "c.py"))
    run("edit", "a.py", "c.py", "rename it", "--yes", "--create", code=0)
    called(stage, a="c.py")
    for command, path in (("undo", "a.py"), ("redo", "c.py")):
        run(command, code=0)
        stage.expect({path: "a"})
        assert len(read_memories(stage.layout)) == 1


@pytest.mark.soak
def test_a_rename_while_the_memory_cannot_be_read_for_a_moment(
    stage: Stage, run: Run, script: Script
) -> None:
    script.replies(CHANGE)
    run("edit", "a.py", "shout", "--yes", code=0)
    called(stage, a="a.py")
    old = "".join(f"-{line}\n" for line in stage.repo.read("a.py").decode().splitlines())
    rewritten = (
        renamed("a.py", "c.py")[:-4] + f"--- a/a.py\n+++ b/c.py\n@@\n{old}" + "+import os\n" * 9 + "```\n"
    )
    script.replies("All of a.py goes.\n" + rewritten)
    script.act(0, "mv .repoagent/memory ../aside; touch .repoagent/memory")
    check = ("--check-unconfined", "--check", "rm .repoagent/memory; mv ../aside .repoagent/memory")
    run("edit", "a.py", "c.py", "rename it", "--yes", "--create", *check, code=0)
    stage.expect({"c.py": "a"}, a="renamed from a.py")


@pytest.mark.soak
@pytest.mark.parametrize("is_committed", [True, False])
def test_an_edit_that_deletes_one_and_makes_another(
    stage: Stage, run: Run, script: Script, is_committed: bool
) -> None:
    """Neither is the other, whichever of the two is there."""
    script.replies(CHANGE)
    run("edit", "a.py", "shout", "--yes", code=0)
    called(stage, a="a.py")
    delete = whole("-", "--- a/a.py\n+++ /dev/null", stage.repo.read("a.py"))
    script.replies(delete + whole("+", "--- /dev/null\n+++ b/new.py", b"import os\n" * 9))
    options = ("--create",) if is_committed else ("--create", "--no-commit")
    run("edit", "a.py", "new.py", "delete a.py and write new.py instead", "--yes", *options, code=0)
    called(stage, new="new.py")
    stage.expect({"new.py": "new"})
    run("undo", code=0)
    stage.expect({"a.py": "a"})
    run("redo", code=0)
    stage.expect({"new.py": "new"})


@pytest.mark.parametrize("umask", ["022", "000"])
@pytest.mark.soak
def test_files_are_readable_by_the_owner_only(stage: Stage, script: Script, umask: str) -> None:
    script.replies(CHANGE)
    environment = {**os.environ, "REPOAGENT_MODEL": script.spec}
    for command in ("edit a.py shout --yes", "recall shout", "memory list", "neighbors a.py", "undo", "redo"):
        shell = ["sh", "-c", f"umask {umask}; exec '{sys.executable}' -m repoagent {command}"]
        done = subprocess.run(shell, cwd=stage.top, env=environment, capture_output=True, check=False)
        assert done.returncode in (0, 1), done
    kept = [path for path in stage.layout.root.rglob("*") if path.is_file()]
    kept = [path for path in kept if path.name != ".gitignore"]  # git itself lets others read that
    assert len(kept) > 8
    assert [path for path in kept if path.stat().st_mode & 0o077] == []
    folders = [path for path in stage.layout.root.rglob("*") if path.is_dir()]
    assert [path for path in folders if path.stat().st_mode & 0o077] == []
    assert stage.layout.root.stat().st_mode & 0o022 == 0
