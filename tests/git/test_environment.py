"""External influences on the whole program: git's options and variables, identities, and programs that run hooks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from repoagent.git.files import blob_hash
from tests import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Done, Script, script
from tests.git.edits import change, edit, lines, recovered, shell, staged, wait_for
from tests.git.snapshot import nothing_left, seen, unchanged
from tests.program import Running

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
    assert staged(messy, "b.txt") == lines().replace("line 9", "staged 9")
    nothing_left(messy)
