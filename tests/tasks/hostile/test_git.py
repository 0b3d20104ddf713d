"""The program's git runs outside of the sandbox and must not execute what a sandboxed command wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from repoagent.agent.approvals.policy import Verdict
from repoagent.edit.guards.risky_changes import Concern
from repoagent.errors import CheckFailed, RepoagentError
from repoagent.git.worktree import open_worktree
from repoagent.tasks.changes.sensitive_files import files_obeyed_by_git
from tests.conftest import GitRepo
from tests.tasks.bare import FINISH, NAME, User, confined, diff, go


def program(repo: GitRepo, path: str, text: str = "") -> None:
    repo.write(path, f"#!/bin/sh\n{text}").chmod(0o755)


@confined
def test_hooks_that_git_ignores(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("Ignore the hooks", **{".gitignore": ".hooks/\n"})
    repo.git("config", "core.hooksPath", ".hooks")
    proof = tmp_path / "escaped"
    script = f"printf '#!/bin/sh\\ntouch {proof}\\n' > .hooks/pre-commit; chmod +x .hooks/pre-commit"
    run = f"<run>mkdir -p .hooks; {script}; echo new > a.txt; true</run>"
    outcome, _, _ = go(repo, run, FINISH, FINISH, mode="auto")
    assert outcome.commits and not proof.exists()


@pytest.mark.soak  # as with the hooks
@confined
@pytest.mark.parametrize("folder", ["", "lib/"])
def test_the_program_of_a_filter(repo: GitRepo, tmp_path: Path, folder: str) -> None:
    """Also of a submodule: git runs in it to find changes, and would obey its configuration."""
    inner = GitRepo(tmp_path / "inner") if folder else repo
    if folder:
        inner.top.mkdir()
        inner.git("init", "-q")
    program(inner, "clean.sh", "cat\n")
    inner.commit("Filter texts", **{".gitattributes": "*.txt filter=x\n", "a.txt": "one\n"})
    if folder:
        repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "lib")
        repo.commit("With a submodule")
    repo.git("-C", folder or ".", "config", "filter.x.clean", "./clean.sh")
    proof = tmp_path / "escaped"
    script = f"printf '#!/bin/sh\\ntouch {proof}\\ncat\\n' > {folder}clean.sh"
    run = f"<run>{script}; echo new > {folder}a.txt; true</run>"
    _, _, user = go(repo, run, "<run>true</run>", FINISH, FINISH, mode="auto")
    assert not proof.exists()
    assert "Read-only file system" in user.observations[0].text
    assert repo.top / folder / "clean.sh" in files_obeyed_by_git(open_worktree(repo.top))


@confined
def test_a_repository_that_replaces_a_submodule(repo: GitRepo) -> None:
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},sub")
    repo.git("commit", "-qm", "Name a submodule")
    (repo.top / "sub").mkdir()
    _, _, user = go(repo, "<run>git init -q sub; ls -A sub</run>", FINISH, FINISH, mode="auto")
    assert "Read-only file system" in user.observations[0].text
    assert not (repo.top / "sub/.git").exists()


@confined
def test_a_repository_in_a_folder_is_not_entered_but_reported(repo: GitRepo, tmp_path: Path) -> None:
    repo.commit("Begin", **{"src/a.py": "a\n", "lib/a.py": "a\n"})
    proof = tmp_path / "escaped"
    text = (
        f"git init -q hid; git -C hid config core.fsmonitor 'touch {proof}; false'; cp -r hid/.git src; "
        "echo 'gitdir: ../hid/.git' >lib/.git; for d in src lib; do echo b >>$d/a.py; done; true"
    )
    search = ["<search>b</search>", '<history path="src/a.py"/>', '<read path="src/a.py"/>']
    out, _, user = go(repo, f"<run>{text}</run>", *search, "<run>true</run>", FINISH, FINISH, mode="auto")
    assert not proof.exists()
    assert out.commits and repo.read("src/a.py") == b"a\nb\n"
    said = "git reads it as configuration in that folder"
    warned = [message.split()[1] for message in user.messages if said in message]
    assert sorted(warned) == ["hid/.git", "lib/.git", "src/.git"]
    repo.git("-C", "src", "status")  # as a shell prompt does
    assert proof.exists()


def test_protected_paths(make_repo: Callable[[str], GitRepo]) -> None:
    repo = make_repo("kept")
    program(repo, "lefthook.yml")
    repo.commit("Begin", **{".husky/pre-commit": ""})
    repo.git("config", "core.hooksPath", ".husky/_")
    repo.git("config", "filter.x.smudge", "cat --flag tools/smudge %f")
    repo.git("config", "include.path", "../team.gitconfig")
    worktree = open_worktree(repo.top)
    kept = {path.relative_to(worktree.top).as_posix() for path in files_obeyed_by_git(worktree)}
    husky = {".husky/_", ".husky", "lefthook.yml", "lefthook-local.yml"}
    assert husky | {"tools/smudge", "team.gitconfig"} <= kept
    assert not kept & {"cat", "--flag", "%f", ".pre-commit-config.yaml"}


@confined
def test_a_command_that_writes_an_executed_file_is_reported(repo: GitRepo) -> None:
    _, _, user = go(repo, "<run>echo x > .exrc</run>", FINISH, FINISH, mode="auto")
    assert sum(".exrc was written" in line for line in user.messages) == 1


def test_a_read_only_run_does_not_commit_earlier_changes(repo: GitRepo) -> None:
    head = repo.head()
    edit = diff("README.md", repo.read("README.md").decode().split("\n")[0], "New")
    with pytest.raises((RepoagentError, IndexError)):
        go(repo, edit)
    assert b"New" in repo.read("README.md")
    outcome, _, _ = go(repo, FINISH, prompt="what is it?", mode="read-only")
    assert (outcome.commits, repo.head(), outcome.left) == ((), head, ("README.md",))
    with pytest.raises(RepoagentError):
        go(repo, "<reject>no</reject>", prompt="and now?", mode="read-only")
    assert b"New" in repo.read("README.md")


class Once(User):
    """A user who agrees to one change of such a file, and then is away."""

    def agrees(self, concerns: Sequence[Concern]) -> bool | None:
        self.messages.append(concerns[0].path)
        return True if len(self.messages) == 1 else None


def test_an_approved_file_that_changed_since(repo: GitRepo) -> None:
    repo.commit("Settings", Jenkinsfile="old\n")
    edit = diff("Jenkinsfile", "old", "new")
    evil = "<run>echo evil >> Jenkinsfile</run>"
    with pytest.raises(CheckFailed, match=r"Jenkinsfile is run by a server"):
        go(repo, edit, evil, FINISH, FINISH, FINISH, confine=False, mode="ask", user=Once())
    repo.git("checkout", "-q", "Jenkinsfile")
    outcome, _, user = go(repo, edit, FINISH, user=Once(), name=f"{NAME[:-1]}0")
    assert outcome.commits and user.messages.count("Jenkinsfile") == 1


def test_a_rejected_change_keeps_the_approved_edit(repo: GitRepo) -> None:
    repo.commit(**{".envrc": "old\n"})
    user = Once(allows=lambda request: Verdict(request.kind != "sensitive"))
    evil = "<run>echo evil >> .envrc</run>"
    go(repo, diff(".envrc", "old", "new"), evil, FINISH, confine=False, mode="ask", user=user)
    assert (repo.read(".envrc"), repo.git("show", "HEAD:.envrc")) == (b"new\n", "new\n")
