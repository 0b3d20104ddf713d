"""`runs delete` of a run that worked in a linked work tree."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script

FIRST = "def greet(name):\n    return 'hello ' + name\n"


def made(repo: GitRepo, run: Run, script: Script, *options: str) -> tuple[str, Path]:
    """A run on the branch `side`, its name and the folder it worked in."""
    repo.commit(**{"src/app.py": FIRST})
    script.replies(GREET, "<commit>\nGreet\n</commit>\n<finish>greets</finish>")
    assert run("run", "greet", "--mode", "auto-edit", "--branch", "side", *options).code == 0
    (record,) = (repo.top / ".repoagent/runs").glob("*/run.json")
    output = json.loads(record.read_text())
    return output["name"], Path(output["worktree"])


def test_its_branch_stays(repo: GitRepo, run: Run, script: Script) -> None:
    name, folder = made(repo, run, script)
    assert not folder.exists()
    done = run("runs", "delete", name, "--yes")
    assert done.code == 0 and "kept its branch side; `git branch -d side` deletes it" in done.out
    assert repo.git("log", "-1", "--format=%s", "side") == "Greet\n"


def test_uncommitted_work_in_its_work_tree_is_not_removed(repo: GitRepo, run: Run, script: Script) -> None:
    name, folder = made(repo, run, script, "--no-commit")
    assert folder.is_dir()
    done = run("runs", "delete", name, "--yes")
    assert done.code == 3 and f"uncommitted work in {folder}" in done.err
    assert (folder / "src/app.py").read_text() != FIRST
    assert (repo.top / f".repoagent/runs/{name}/run.json").exists()
    repo.git("-C", str(folder), "checkout", "-q", ".")
    assert run("runs", "delete", name, "--yes").code == 0
    assert not folder.exists() and "side" in repo.git("branch")


def test_a_folder_chosen_by_the_user_stays(repo: GitRepo, run: Run, script: Script, tmp_path: Path) -> None:
    name, folder = made(repo, run, script, "--worktree", str(tmp_path / "mine"))
    done = run("runs", "delete", name, "--yes")
    assert done.code == 0 and f"`git worktree remove {folder}`" in done.out
    assert folder.is_dir() and "side" in repo.git("branch")
