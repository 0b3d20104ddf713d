"""Everyday commands work in each sandbox that works here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from repoagent.agent.sandbox.confine import Sandbox
from repoagent.agent.sandbox.policy import Policy, scrub_environment
from tests.conftest import GitRepo

from .targets import WORKING, params

every_sandbox = pytest.mark.parametrize("sandbox", params())
pytestmark = pytest.mark.skipif(not WORKING, reason="no sandbox works on this machine")


def run(sandbox: Sandbox, repo: GitRepo, script: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a script in the work tree of `repo`; `options` change the policy."""
    policy = replace(policy_of(repo), **options)
    return subprocess.run(
        sandbox.wrap(["sh", "-ec", script], policy), cwd=repo.top, env=scrub_environment(os.environ, policy),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def policy_of(repo: GitRepo) -> Policy:
    return Policy(repo.top, repo.top.with_name("scratch"), (repo.top / ".git", repo.top / ".repoagent"))


@every_sandbox
@pytest.mark.parametrize("owner", ["us", "another user"])
def test_git_works(sandbox: Sandbox, repo: GitRepo, owner: str) -> None:
    repo.write("a.txt", "changed\n")
    if owner != "us":
        if os.geteuid() != 0:
            pytest.skip("only root can give a repository to another user")
        for path in (repo.top, repo.top / ".git"):
            os.chown(path, 12345, 12345)
    done = run(sandbox, repo, "git status --short; git log --oneline | wc -l; git diff --stat")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(" M a.txt\n1\n")
    assert run(sandbox, repo, "git add a.txt").returncode == 128


@every_sandbox
def test_git_reports_a_hidden_file_as_changed(sandbox: Sandbox, repo: GitRepo) -> None:
    if not sandbox.mounting:
        pytest.skip("this sandbox denies access to hidden files, it does not put empty ones over them")
    repo.write("a.txt", "changed\n")
    repo.write(".env", "correct-horse\n")
    repo.git("add", "-f", ".env")
    script = "test -f .env; cat .env; git status --short; git diff --stat; (echo x >.env) || true"
    done = run(sandbox, repo, script, hide=(repo.top / ".env",))
    assert done.stdout.startswith("AM .env\n M a.txt\n .env")
    assert "Read-only" in done.stderr and "git" not in done.stderr and "fatal" not in done.stderr
    assert repo.read(".env") == b"correct-horse\n"


@every_sandbox
def test_git_works_in_a_linked_work_tree(sandbox: Sandbox, repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = GitRepo(tmp_path / "linked")
    linked.write("a.txt", "changed\n")
    done = run(sandbox, linked, "git status --short", keep=(linked.top / ".git", repo.top / ".git"))
    assert (done.stdout, done.stderr) == (" M a.txt\n", "")


@every_sandbox
def test_files_are_created_changed_and_deleted(sandbox: Sandbox, repo: GitRepo) -> None:
    (repo.top / "build").mkdir()
    script = 'echo x >build/new; mv build/new src/moved; rm src/app.py; ln -s moved src/link; mktemp; echo x >"$XDG_CACHE_HOME"'
    assert run(sandbox, repo, script).stderr == ""
    assert sorted(path.name for path in (repo.top / "src").iterdir()) == ["link", "moved"]
    script = "echo x >new; mkdir folder; rm README.md; echo x >/tmp/there; echo x >/dev/shm/there"
    at_top = run(sandbox, repo, script)
    limits = " ".join(sandbox.limits_of(policy_of(repo)))
    is_closed = "cannot create files or folders at the top of the work tree" in limits
    assert (at_top.returncode != 0) == is_closed and (repo.top / "new").exists() != is_closed
    assert run(sandbox, repo, "cat a.txt >/dev/null; mktemp", read_only=True).returncode == 0
    assert run(sandbox, repo, "echo x >src/app.py", read_only=True).returncode == 2
    assert run(sandbox, repo, "rm a.txt", read_only=True).returncode == 1


@every_sandbox
def test_programs_run(sandbox: Sandbox, repo: GitRepo) -> None:
    repo.write("src/test_it.py", "import tempfile, unittest, subprocess, sys\nclass Test(unittest.TestCase):\n"
               "    def test(self):\n        with tempfile.TemporaryFile() as file:\n            file.write(b'x')\n"
               "        self.assertEqual(subprocess.check_output([sys.executable, '-c', 'print(1)']), b'1\\n')\n")  # fmt: skip
    done = run(sandbox, repo, f"cd src; {sys.executable} -m unittest test_it")
    assert done.returncode == 0, done.stderr
    if shutil.which("cc"):
        repo.write("src/main.c", "int main(void) { return 42; }\n")
        done = run(sandbox, repo, "cc -o src/main src/main.c; src/main")
        assert (done.returncode, done.stderr) == (42, "")


@every_sandbox
def test_command_reaches_its_own_server(sandbox: Sandbox, repo: GitRepo) -> None:
    script = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
    repo.write("src/serve.py", f"{script}socket.create_connection(server.getsockname())\nprint('reached')")
    for network in (False, True):
        done = run(sandbox, repo, f"{sys.executable} src/serve.py", network=network)
        assert done.stdout == ("reached\n" if sandbox.mounting or network else "")


@every_sandbox
def test_settings_of_tools_are_readable(
    sandbox: Sandbox, repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are links in a writable folder, but those with keys stay hidden."""
    config = tmp_path / "home/.config"
    for name in ("tool", "gh"):
        (config / name).mkdir(parents=True)
        (config / name / "settings").write_text(f"{name}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    script = """
    cat "$XDG_CONFIG_HOME"/tool/settings
    cat "$XDG_CONFIG_HOME"/gh/settings 2>/dev/null || mkdir "$XDG_CONFIG_HOME"/new "$XDG_DATA_HOME"/new && echo made
    """
    done = run(sandbox, repo, script, hide=(config / "gh",))
    assert (done.stdout, done.stderr) == ("tool\nmade\n", "")
