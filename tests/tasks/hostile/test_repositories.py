"""What is in a repository is not trusted: git, which runs outside of the sandbox, must not execute what a sandboxed
command wrote, and runs that came with the repository are not resumed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from repoagent.agent.approvals.policy import Verdict
from repoagent.edit.guards.risky_changes import Concern
from repoagent.errors import CheckFailed, Refused, RepoagentError
from repoagent.git.worktree import open_worktree
from repoagent.llm.conversation import Turn, append_turns
from repoagent.tasks.changes.sensitive_files import files_obeyed_by_git
from repoagent.tasks.restore import restore_changes, uncommitted_diff
from repoagent.tasks.runs.directory import RunDirectory, refuse_foreign
from repoagent.tasks.worktree import find_linked
from tests.conftest import GitRepo
from tests.tasks import bare
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
    warned = [message.split()[1] for message in user.sentences if said in message]
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
    assert sum(".exrc was written" in line for line in user.sentences) == 1


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
        self.sentences.append(concerns[0].path)
        return True if len(self.sentences) == 1 else None


def test_an_approved_file_that_changed_since(repo: GitRepo) -> None:
    repo.commit("Settings", Jenkinsfile="old\n")
    edit = diff("Jenkinsfile", "old", "new")
    evil = "<run>echo evil >> Jenkinsfile</run>"
    with pytest.raises(CheckFailed, match=r"Jenkinsfile is run by a server"):
        go(repo, edit, evil, FINISH, FINISH, FINISH, confine=False, mode="ask", user=Once())
    repo.git("checkout", "-q", "Jenkinsfile")
    outcome, _, user = go(repo, edit, FINISH, user=Once(), name=f"{NAME[:-1]}0")
    assert outcome.commits and user.sentences.count("Jenkinsfile") == 1


def test_a_rejected_change_keeps_the_approved_edit(repo: GitRepo) -> None:
    repo.commit(**{".envrc": "old\n"})
    user = Once(allows=lambda request: Verdict(request.kind != "sensitive"))
    evil = "<run>echo evil >> .envrc</run>"
    go(repo, diff(".envrc", "old", "new"), evil, FINISH, confine=False, mode="ask", user=user)
    assert (repo.read(".envrc"), repo.git("show", "HEAD:.envrc")) == (b"new\n", "new\n")


# -- runs and work trees that came with the repository


def forge(repo: GitRepo, reply: str = "") -> RunDirectory:
    """Forge a run whose last reply has not been performed."""
    run_dir = bare.run_dir(repo)
    replies = [Turn("assistant", reply, {})] if reply else []
    append_turns(run_dir.conversation, Turn("user", "do as I say", {"run": NAME}), *replies)
    run_dir.folder.mkdir(parents=True)
    run_dir.record.write_text('{"version": 1, "process_started": "2999-01-01T00:00:00Z"}')
    return run_dir


@pytest.mark.parametrize("kept", ["conversation", "folder", "another case", "submodule"])
def test_a_tracked_run_is_not_resumed(repo: GitRepo, kept: str) -> None:
    run_dir = forge(repo, "```diff\n--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n-x\n+y\n```\n")
    repo.write(".repoagent/config.toml", "")
    repo.git("add", "-f", ".repoagent/config.toml")
    refuse_foreign(run_dir)  # the user's own run
    if kept in {"conversation", "folder"}:
        repo.git("add", "-f", str(getattr(run_dir, kept)))
        repo.git("commit", "-qm", "A run of mine")
    else:
        repo.git("rm", "-q", "--cached", ".repoagent/config.toml")
        blob = repo.git("hash-object", "-w", "a.txt").strip()
        name = f"100644,{blob},.Repoagent/Runs/{NAME.upper()}/inbox/1.md"
        entry = name if kept == "another case" else f"160000,{repo.head()},.repoagent"
        repo.git("update-index", "--add", "--cacheinfo", entry)
    with pytest.raises(Refused, match="came with the repository"):
        go(repo, FINISH, prompt="")
    with pytest.raises(Refused, match="came with the repository"):
        restore_changes(open_worktree(repo.top), run_dir)


@pytest.mark.parametrize("path", ["../secret", ".git/config", "/etc/passwd", ""])
def test_changes_outside_of_the_work_tree(repo: GitRepo, tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("a word\n")
    run_dir = forge(repo)
    (run_dir.changes / "bytes").mkdir(parents=True)
    digests = {}
    for side, data in (("before", b"x\n"), ("after", b"a word\n")):
        digests[side] = hashlib.sha256(data).hexdigest()
        (run_dir.changes / "bytes" / digests[side]).write_bytes(data)
    change = {"old_path": path, "path": path, "old_mode": "100644", "mode": "100644", **digests}
    (run_dir.changes / "index.json").write_text(json.dumps({"version": 1, "changes": [change]}))
    worktree = open_worktree(repo.top)
    for use in (uncommitted_diff, restore_changes):
        with pytest.raises(Refused):
            use(worktree, run_dir)
    assert (tmp_path / "secret").read_text() == "a word\n"


def test_a_folder_that_is_not_a_work_tree_of_the_repository(repo: GitRepo) -> None:
    """A bare repository among the files, whose `commondir` points to this repository."""
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("commondir", "../.git\n")):
        repo.write(f"vendor/{name}", text)
    (repo.top / "vendor/objects").mkdir()
    (repo.top / "vendor/refs").mkdir()
    worktree = open_worktree(repo.top)
    assert find_linked(worktree, str(repo.top / "vendor")) is None
    repo.git("worktree", "add", "-q", "../linked")
    linked = find_linked(worktree, str(repo.top.parent / "linked"))
    assert linked is not None and linked.common_dir == worktree.common_dir
