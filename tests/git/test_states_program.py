"""End to end: the program in a repository with much other work."""

from __future__ import annotations

import subprocess

import pytest

from tests import program
from tests.conftest import GitRepo
from tests.git.edits import committed
from tests.git.snapshot import changed, snapshot, untimed
from tests.git.states import PATH, text

DIFF = f"""\
--- a/{PATH}
+++ b/{PATH}
@@ -10,3 +10,3 @@
 line 10
-line 11
+EDITED
 line 12
"""


def run(repo: GitRepo, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    done = program.run(args, repo.top, stdin=stdin.encode())
    return subprocess.CompletedProcess(args, done.returncode, done.stdout.decode(), done.stderr.decode())


def shown(repo: GitRepo) -> dict[str, tuple[object, ...]]:
    """Without the program's own folder."""
    return {key: value for key, value in untimed(snapshot(repo)).items() if ".repoagent" not in key}


@pytest.mark.soak
def test_apply_undo_and_redo_amid_other_work(busy: GitRepo) -> None:
    busy.write(PATH, text(l3="mine"))
    busy.git("add", PATH)
    busy.write(PATH, text(l3="mine", l18="mine"))
    busy.git("config", "commit.verbose", "true")
    busy.git("config", "trailer.ifmissing", "doNothing")
    before = shown(busy)
    done = run(busy, "apply", "--yes", "-m", "Edit line 11", stdin=DIFF)
    assert done.returncode == 0, done.stderr
    assert f"other uncommitted work in {PATH} stays uncommitted" in done.stderr
    after = shown(busy)
    own = {f"{kind} {PATH}" for kind in ("file", "index", "status")}
    assert changed(before, after) == {*own, "ref refs/heads/main"}
    assert committed(busy, PATH) == text(l11="EDITED")
    assert "\nRepoagent-Edit: " in busy.git("log", "-1", "--format=%B")
    for step, wanted in (("undo", before), ("redo", after), ("undo", before)):
        done = run(busy, step)
        assert done.returncode == 0, done.stderr
        assert changed(wanted, shown(busy)) == set()


@pytest.mark.soak
@pytest.mark.parametrize("way_out", ["--no-commit", "--include-dirty"])
def test_the_ways_out_of_a_refusal(busy: GitRepo, way_out: str) -> None:
    busy.write(PATH, text(l11="mine"))
    diff = DIFF.replace("-line 11", "-mine")
    before = shown(busy)
    done = run(busy, "apply", "--yes", "-m", "Edit", stdin=diff)
    assert done.returncode == 3, done.stderr
    assert "from uncommitted work in it on line 11" in done.stderr
    assert way_out in done.stderr and changed(before, shown(busy)) == set()
    done = run(busy, "apply", "--yes", "-m", "Edit", way_out, stdin=diff)
    assert done.returncode == 0, done.stderr
    assert busy.read(PATH).decode() == text(l11="EDITED")
    head = text() if way_out == "--no-commit" else text(l11="EDITED")
    assert committed(busy, PATH) == head
    assert run(busy, "undo").returncode == 0
    assert changed(before, shown(busy)) == set()


def test_in_the_middle_of_a_merge(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("README.md", "side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "main\n")
    repo.commit("main")
    repo.git("merge", "side", ok=False)
    diff = "--- a/a.txt\n+++ b/a.txt\n@@\n line 4\n-line 5\n+LINE 5\n line 6\n"
    before = shown(repo)
    done = run(repo, "apply", "--yes", "-m", "Edit", stdin=diff)
    assert done.returncode == 3 and "a merge is in progress" in done.stderr and "--no-commit" in done.stderr
    assert changed(before, shown(repo)) == set()
    assert run(repo, "apply", "--yes", "--no-commit", stdin=diff).returncode == 0
    assert changed(before, shown(repo)) == {"file a.txt", "status a.txt"}
    repo.write("README.md", "both\n")
    repo.git("commit", "-qa", "--no-edit")
    assert repo.git("log", "-1", "--format=%p").count(" ") == 1
