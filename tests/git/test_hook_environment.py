"""The user's environment and configuration for git apply to their hooks, and do not break an edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from repoagent.errors import Refused
from repoagent.git.undo import undo
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, run, script
from tests.git.edits import committed, edit, shout, worktree

__all__ = ["run", "script"]  # fixtures

PATHSPECS = ("GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_LITERAL_PATHSPECS")


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_GLOB_PATHSPECS": "1", "GIT_ICASE_PATHSPECS": "1", "GIT_DIFF_OPTS": "-u7"},
        pytest.param({"GIT_LITERAL_PATHSPECS": "1"}, marks=pytest.mark.soak),
        pytest.param({"GIT_NOGLOB_PATHSPECS": "1"}, marks=pytest.mark.soak),
    ],
    ids=lambda env: next(iter(env)),
)
def test_settings_of_pathspecs_and_patches_are_for_hooks(
    repo: GitRepo, run: Run, script: Script, tmp_path: Path, env: dict[str, str]
) -> None:
    names = [f"${name}" for name in (*PATHSPECS, "GIT_DIFF_OPTS")]
    expected = [env[name[1:]] for name in names if name[1:] in env]
    for hook in ("pre-commit", "post-checkout"):
        repo.hook(hook, f"echo {' '.join(names)} > {tmp_path}/{hook}\n")
    repo.write(".gitignore", "ignored\n")
    repo.write("*.py", "x\n")
    repo.commit("more")
    repo.write("src/app.py", b"# mine\n" + repo.read("src/app.py"))
    script.replies(GREET)
    assert run("edit", "src/app.py", "greet with a comma", "--branch", "new", "--yes", env=env).code == 0
    assert "hello, " in committed(repo, "src/app.py") and "mine" not in committed(repo, "src/app.py")
    for hook in ("pre-commit", "post-checkout"):
        assert (tmp_path / hook).read_text().split() == expected
    for command in ("review HEAD^..HEAD", "neighbors src/app.py", "undo", "redo"):
        assert run(*command.split(), env=env).code == 0, command
    assert repo.git("rev-parse", "--abbrev-ref", "HEAD") == "new\n"


def test_a_branch_that_is_a_link_to_another_is_followed(repo: GitRepo) -> None:
    repo.git("branch", "real")
    repo.git("symbolic-ref", "refs/heads/link", "refs/heads/real")
    repo.git("symbolic-ref", "HEAD", "refs/heads/link")
    before = repo.head()
    made = edit(repo, shout(repo, 5))
    assert (made.branch, repo.git("rev-parse", "real").strip()) == ("real", made.commit)
    assert undo(worktree(repo)).moved and repo.head() == before
    with pytest.raises(Refused, match="link is a symbolic ref to branch real: run `git switch real` first"):
        edit(repo, shout(repo, 5), branch="new")
    assert repo.read(".git/HEAD") == b"ref: refs/heads/link\n"


def test_a_head_outside_of_branches_is_refused_at_once(repo: GitRepo, run: Run, tmp_path: Path) -> None:
    repo.hook("pre-commit", f"touch {tmp_path}/hooked\n")
    repo.git("update-ref", "refs/other/x", "HEAD")
    repo.git("symbolic-ref", "HEAD", "refs/other/x")
    with pytest.raises(Refused, match="HEAD is on refs/other/x, which is not a branch: switch to a branch"):
        edit(repo, shout(repo, 5))
    done = run("edit", "a.txt", "x", "--yes")
    assert done.code == 3 and "refs/other/x, which is not a branch" in done.err
    assert not (tmp_path / "hooked").exists()
