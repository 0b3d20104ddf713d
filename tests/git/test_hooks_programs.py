"""Programs that run hooks, and hooks that are killed or never end: the real pre-commit, ^C, repoagent itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git.files import blob_hash
from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Script, script
from tests.git.edits import change, edit, lines, recovered, shell, staged, wait_for
from tests.git.snapshot import nothing_left, seen, unchanged
from tests.program import Running

__all__ = ["script"]  # a fixture
pytestmark = pytest.mark.soak

LINES = lines()


WORK = r"""
cp a.txt b.txt; git add b.txt; git commit -qm more; sed -i 's/line 9/staged 9/' b.txt; git add b.txt
sed -i 's/line 6/unstaged 6/' a.txt b.txt; printf '\n\n# mine\n' >> src/app.py; echo untracked > untracked.txt
"""


@pytest.fixture
def messy(repo: GitRepo) -> GitRepo:
    """Staged and unstaged work, in the file of the edit (src/app.py) too."""
    shell(repo, WORK)
    return repo


@pytest.fixture
def start(repo: GitRepo, script: Script) -> Callable[[], Running]:
    """An edit of src/app.py with a scripted model, in a process group of its own, as a terminal gives one."""
    script.replies(GREET)
    edit = ("edit", "src/app.py", "greet with a comma", "--yes")
    return lambda: program.start(edit, repo.top, env={"REPOAGENT_MODEL": script.spec})


Start = Callable[[], Running]


@pytest.mark.parametrize("name", ["pre-commit", "commit-msg"])
def test_hook_that_is_interrupted(messy: GitRepo, start: Start, tmp_path: Path, name: str) -> None:
    messy.hook(name, f"git stash -q --keep-index 2> /dev/null\ntouch {tmp_path}/began\nsleep 60\n")
    before, head = seen(messy), messy.head()
    process = start()
    wait_for(tmp_path / "began")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=30) == 130
    stash = {key: value for key, value in seen(messy).items() if "stash" in key}  # the hook's stays
    unchanged(messy, {**before, **stash})
    assert messy.head() == head
    nothing_left(messy)


CONFIGURATION = """\
repos:
- repo: local
  hooks:
  - {id: wait, name: wait, language: system, entry: sh -c 'touch BEGAN; sleep 60', pass_filenames: false}
"""


def test_pre_commit_killed_while_it_has_stashed(
    messy: GitRepo, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's unstaged work is only in its cache then, and the files contain only the committed text."""
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "cache"))
    (tmp_path / "hooks.yaml").write_text(CONFIGURATION.replace("BEGAN", str(tmp_path / "began")))
    pre_commit = Path(sys.executable).with_name("pre-commit")
    install = [str(pre_commit), "install", "-c", str(tmp_path / "hooks.yaml")]
    subprocess.run(install, cwd=messy.top, check=True, capture_output=True)
    before, head = seen(messy), messy.head()
    process = start()
    wait_for(tmp_path / "began")
    assert b"unstaged" not in messy.read("a.txt") and b"mine" not in messy.read("src/app.py")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "rolled back" in "".join(recovered(messy))
    unchanged(messy, before)
    assert messy.head() == head
    nothing_left(messy)


def test_own_commands_in_a_hook_leave_the_edit_alone(messy: GitRepo, start: Start, tmp_path: Path) -> None:
    """They see a journal whose owner is alive, and the lock; none of them may wait for it."""
    command = f"'{sys.executable}' -m repoagent"
    messy.hook(
        "pre-commit",
        f"exec > {tmp_path}/out 2>&1\n{command} undo\n{command} edit a.txt more --yes\n{command} config\n"
        f"{command} edit a.txt more --yes --dry-run\ntest -e .git/index.lock\n",
    )
    before = seen(messy, "src/app.py")
    process = start()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    said = (tmp_path / "out").read_text()
    assert "Traceback" not in said and "rolled back" not in said
    assert messy.git("diff", "--name-only", "HEAD^", "HEAD") == "src/app.py\n"
    unchanged(messy, before, "src/app.py")
    nothing_left(messy)


def test_garbage_is_not_collected_while_the_index_is_out_of_sight(messy: GitRepo, tmp_path: Path) -> None:
    """Staged content older than two weeks is referenced only by the index."""
    for key, value in {"auto": "1", "autoDetach": "false", "pruneExpire": "now"}.items():
        messy.git("config", f"gc.{key}", value)
    number = made = 0
    while made < 4:  # git estimates the number of objects by one of their folders
        number += 1
        data = b"%d\n" % number
        if blob_hash(data).startswith("17"):
            messy.git("hash-object", "-w", "--stdin", stdin=data)
            made += 1
    edit(messy, change(messy, "src/app.py", "hello", "hi"))
    assert staged(messy, "b.txt") == LINES.replace("line 9", "staged 9")
    nothing_left(messy)
