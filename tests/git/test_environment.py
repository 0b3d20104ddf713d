"""External influences: git's options and variables, identities, signatures; the whole program is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Done, Script, script
from tests.git.snapshot import nothing_left, seen, unchanged

__all__ = ["script"]  # a fixture
pytestmark = pytest.mark.soak

Run = Callable[..., Done]
EDIT = ("edit", "src/app.py", "greet with a comma", "--yes")


@pytest.fixture
def git(script: Script) -> Run:
    """`git ARGS`, which finds git-repoagent, with the scripted model."""
    script.replies(GREET)

    def run(*args: str, cwd: Path, **env: str) -> Done:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        whole = {**os.environ, "PATH": path, "REPOAGENT_MODEL": script.spec, **env}
        done = subprocess.run(["git", *args], cwd=cwd, input=b"", capture_output=True, check=False, env=whole)
        out, err = (data.decode(errors="replace") for data in (done.stdout, done.stderr))
        return Done(done.returncode, out, err)

    return run


def made(repo: GitRepo, before: dict[str, object], done: Done) -> None:
    assert done.code == 0, done.err
    assert repo.git("diff", "--numstat", "HEAD^", "HEAD") == "1\t1\tsrc/app.py\n"
    unchanged(repo, before, "src/app.py")
    nothing_left(repo)


def test_dotfiles_in_a_bare_repository(repo: GitRepo, git: Run, tmp_path: Path) -> None:
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "dots"))
    shutil.rmtree(repo.top / ".git")
    options = ("--git-dir=../dots", "--work-tree=.")
    assert git(*options, "reset", "-q", cwd=repo.top).code == 0
    done = git(*options, "repoagent", *EDIT, cwd=repo.top)
    assert done.code == 0, done.err
    assert git(*options, "show", "--format=", "--name-only", cwd=repo.top).out == "src/app.py\n"
    assert git(*options, "status", "--porcelain", "-uno", cwd=repo.top).out == ""


@pytest.mark.parametrize("how", ["-c", "alias", "count", "author", "shell alias"])
def test_identity_dates_and_aliases(repo: GitRepo, git: Run, how: str) -> None:
    repo.write("a.txt", "mine\n")
    repo.git("config", "alias.ra", "repoagent" if how == "alias" else "!git-repoagent")
    repo.git("config", "alias.repoagent", "!false")  # a program comes first
    before = seen(repo, "src/app.py")
    env = {"GIT_AUTHOR_DATE": "2001-02-03T04:05:06+0100", "GIT_COMMITTER_DATE": "@1000000000 +0000"}
    who = ["-c", "user.name=Somebody Else", "-c", "user.email=else@example.com"]
    if how == "count":
        env |= {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_KEY_1": "user.email"}
        env |= {"GIT_CONFIG_VALUE_0": "Somebody Else", "GIT_CONFIG_VALUE_1": "else@example.com"}
    if how == "author":
        env |= {"GIT_AUTHOR_NAME": "Somebody Else", "GIT_AUTHOR_EMAIL": "else@example.com"}
    options = [] if how in ("count", "author") else who
    command = "ra" if "alias" in how else "repoagent"
    made(repo, before, git(*options, command, *EDIT, cwd=repo.top, **env))
    shown = repo.git("log", "-1", "--format=%an <%ae> %ad|%ct", "--date=iso")
    assert shown == "Somebody Else <else@example.com> 2001-02-03 04:05:06 +0100|1000000000\n"


@pytest.mark.parametrize("name", ["post-commit", "pre-push", "post-checkout", "post-merge"])
def test_inside_of_a_hook(repo: GitRepo, git: Run, name: str, tmp_path: Path) -> None:
    """git sets GIT_DIR and, for some hooks, GIT_INDEX_FILE; it runs the hook at the top."""
    command = f"test -e {tmp_path}/once && exit; touch {tmp_path}/once\ngit-repoagent edit src/app.py x --yes"
    repo.hook(name, f"{command} > {tmp_path}/out 2>&1\n")
    repo.write("README.md", "mine\n")
    if name == "post-commit":
        repo.write("a.txt", "theirs\n")
        assert git("commit", "-qm", "theirs", "a.txt", cwd=repo.top).code == 0
    elif name == "pre-push":
        repo.git("init", "-q", "--bare", str(tmp_path / "there"))
        assert git("push", "-q", str(tmp_path / "there"), "main", cwd=repo.top).code == 0
    elif name == "post-checkout":
        assert git("checkout", "-q", "-b", "topic", cwd=repo.top).code == 0
    else:
        repo.git("branch", "side")
        repo.git("-c", "core.hooksPath=/nowhere", "commit", "-q", "--allow-empty", "-m", "more")
        repo.git("checkout", "-q", "side")
        assert git("merge", "-q", "main", cwd=repo.top).code == 0
    said = (tmp_path / "out").read_text()
    assert repo.git("diff", "--numstat", "HEAD^", "HEAD") == "1\t1\tsrc/app.py\n", said
    assert repo.status() == " M README.md\n"
    nothing_left(repo)


@pytest.mark.parametrize("options", [["-a"], ["--", "a.txt"], []])
def test_inside_of_the_users_commit(repo: GitRepo, git: Run, options: list[str], tmp_path: Path) -> None:
    """One of the two commits would be lost, so the edit is refused at once, and the user's commit is made."""
    command = "git-repoagent edit src/app.py x --yes"
    repo.hook("pre-commit", f"(exec 2>&1; {command}; echo $?) > {tmp_path}/out; true\n")
    repo.write("a.txt", "theirs\n")
    repo.git("add", "a.txt")
    git("commit", "-qm", "theirs", *options, cwd=repo.top)
    said = (tmp_path / "out").read_text()
    assert "Traceback" not in said
    if options:
        assert "git hook" in said and said.endswith("3\n")
        assert repo.git("log", "-1", "--format=%s", "--name-only") == "theirs\n\na.txt\n"
        assert repo.status() == ""
    nothing_left(repo)


CLONES = ["--filter=blob:none", "--filter=tree:0", "--depth=1", "--filter=blob:none --depth=1"]


@pytest.mark.parametrize("options", CLONES)
def test_a_partial_clone_fetches_nothing(repo: GitRepo, git: Run, tmp_path: Path, options: str) -> None:
    for n in range(4):
        repo.write("src/app.py", repo.read("src/app.py") + f"# {n}\n".encode())
        repo.commit(f"commit {n}", **{f"other/{n}.txt": "x\n"})
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("config", "uploadpack.allowAnySHA1InWant", "true")
    repo.git("clone", "-q", *options.split(), f"file://{repo.top}", str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    clone.write("a.txt", "mine\n")
    before = seen(clone, "src/app.py")
    trace = tmp_path / "trace"
    done = git("repoagent", *EDIT, cwd=clone.top, GIT_TRACE=str(trace))
    made(clone, before, done)
    assert "upload-pack" not in trace.read_text()  # the remote is never asked
