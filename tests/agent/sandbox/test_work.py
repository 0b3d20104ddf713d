"""Everyday commands work in each sandbox that works here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repoagent.agent.sandbox.backends import Landlock, Sandbox
from repoagent.agent.sandbox.policy import Policy, scrubbed
from tests.conftest import GitRepo

from .world import WORKING, params

every_sandbox = pytest.mark.parametrize("sandbox", params())
pytestmark = pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")


def policy_of(repo: GitRepo, scratch: Path, *, read_only: bool = False, network: bool = False) -> Policy:
    return Policy(
        repo.top, scratch, (repo.top / ".git", repo.top / ".repoagent"), read_only=read_only, network=network
    )


def run(sandbox: Sandbox, policy: Policy, script: str) -> subprocess.CompletedProcess[str]:
    environment = scrubbed(os.environ, policy)
    argv = sandbox.wrap(["sh", "-ec", script], policy)
    return subprocess.run(
        argv, cwd=policy.top, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@every_sandbox
def test_git_works(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    repo.write("a.txt", "changed\n")
    done = run(
        sandbox,
        policy_of(repo, tmp_path / "scratch"),
        "git status --short; git log --oneline | wc -l; git diff --stat",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" M a.txt\n1\n")
    assert run(sandbox, policy_of(repo, tmp_path / "scratch"), "git add a.txt").returncode == 128


@every_sandbox
def test_git_reports_a_hidden_file_as_changed(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    if isinstance(sandbox, Landlock) and not sandbox.mounting:
        pytest.skip("this sandbox denies access to hidden files, it does not put empty ones over them")
    repo.write("a.txt", "changed\n")
    repo.write(".env", "correct-horse\n")
    repo.git("add", "-f", ".env")
    policy = replace(policy_of(repo, tmp_path / "scratch"), hide=(repo.top / ".env",))
    done = run(
        sandbox, policy, "test -f .env; cat .env; git status --short; git diff --stat; (echo x >.env) || true"
    )
    assert done.stdout.startswith("AM .env\n M a.txt\n .env")
    assert "Read-only" in done.stderr and "git" not in done.stderr and "fatal" not in done.stderr
    assert repo.read(".env") == b"correct-horse\n"


@every_sandbox
def test_git_works_in_a_linked_work_tree(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    linked.write("a.txt", "changed\n")
    policy = Policy(linked.top, tmp_path / "scratch", (linked.top / ".git", repo.top / ".git"))
    done = run(sandbox, policy, "git status --short")
    assert (done.stdout, done.stderr) == (" M a.txt\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
@every_sandbox
def test_git_works_if_another_user_owns_the_work_tree(
    sandbox: Sandbox, repo: GitRepo, tmp_path: Path
) -> None:
    for path in (repo.top, repo.top / ".git"):
        os.chown(path, 12345, 12345)
    done = run(
        sandbox, policy_of(repo, tmp_path / "scratch"), "git status --short; git log --oneline | wc -l"
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


@every_sandbox
def test_files_are_created_changed_and_deleted(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    policy = policy_of(repo, tmp_path / "scratch")
    (repo.top / "build").mkdir()
    script = 'echo x >build/new; mv build/new src/moved; rm src/app.py; ln -s moved src/link; mktemp; echo x >"$XDG_CACHE_HOME"'
    assert run(sandbox, policy, script).stderr == ""
    assert sorted(path.name for path in (repo.top / "src").iterdir()) == ["link", "moved"]
    at_top = run(
        sandbox, policy, "echo x >new; mkdir folder; rm README.md; echo x >/tmp/there; echo x >/dev/shm/there"
    )
    is_closed = any(
        "cannot create files or folders at the top of the work tree" in sentence
        for sentence in sandbox.limits_of(policy)
    )
    assert (at_top.returncode != 0) == is_closed
    assert (repo.top / "new").exists() != is_closed


@every_sandbox
def test_read_only_policy_prevents_writing(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    policy = policy_of(repo, tmp_path / "scratch", read_only=True)
    assert run(sandbox, policy, "cat a.txt >/dev/null; mktemp").returncode == 0
    assert run(sandbox, policy, "echo x >src/app.py").returncode == 2
    assert run(sandbox, policy, "rm a.txt").returncode == 1


@every_sandbox
def test_python_tests_run(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    repo.write("src/test_it.py", "import tempfile, unittest, subprocess, sys\nclass Test(unittest.TestCase):\n"
               "    def test(self):\n        with tempfile.TemporaryFile() as file:\n            file.write(b'x')\n"
               "        self.assertEqual(subprocess.check_output([sys.executable, '-c', 'print(1)']), b'1\\n')\n")  # fmt: skip
    done = run(
        sandbox, policy_of(repo, tmp_path / "scratch"), f"cd src; {sys.executable} -m unittest test_it"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@every_sandbox
def test_compiler_runs(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    repo.write("src/main.c", "int main(void) { return 42; }\n")
    done = run(sandbox, policy_of(repo, tmp_path / "scratch"), "cc -o src/main src/main.c; src/main")
    assert (done.returncode, done.stderr) == (42, "")


@every_sandbox
def test_command_reaches_its_own_server(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    script = (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "client = socket.create_connection(server.getsockname())\nprint('reached')"
    )
    repo.write("src/serve.py", script)
    done = run(sandbox, policy_of(repo, tmp_path / "scratch"), f"{sys.executable} src/serve.py")
    assert done.stdout == ("reached\n" if getattr(sandbox, "mounting", True) else "")
    allowed = policy_of(repo, tmp_path / "scratch", network=True)
    assert run(sandbox, allowed, f"{sys.executable} src/serve.py").stdout == "reached\n"


@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("cargo"), reason="no cargo")
@every_sandbox
def test_cargo_runs(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    for name in ("CARGO_HOME", "RUSTUP_HOME"):
        if name not in os.environ:
            pytest.skip(f"{name} is not set, and HOME is another one in tests")
    repo.write("crate/Cargo.toml", '[package]\nname = "it"\nversion = "0.1.0"\nedition = "2021"\n')
    repo.write("crate/src/lib.rs", "#[test]\nfn works() { assert_eq!(1 + 1, 2); }\n")
    done = run(sandbox, policy_of(repo, tmp_path / "scratch"), "cd crate; cargo test --offline")
    assert done.returncode == 0, done.stderr
