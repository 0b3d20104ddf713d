"""The check: its time limit, its background processes, and the sandbox for code that the user has not seen."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from repoagent.agent.sandbox.confine import find_sandbox
from repoagent.config.layers import load_settings, set_value
from repoagent.config.settings import user_file
from repoagent.edit.checks import CheckResult, run_check
from repoagent.edit.request import Check
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.tasks.check import check_of
from tests.cli.apply_patch import program
from tests.conftest import GitRepo
from tests.edit.conftest import GREET, Run, Script, diff
from tests.llm.helpers import gone, soon

in_sandbox = pytest.mark.skipif(find_sandbox() is None, reason="there is no sandbox here")


def test_a_timeout_kills_the_process_group_of_the_check(repo: GitRepo) -> None:
    stubborn = "trap '' TERM; echo begun; sleep 60 & echo $! >pid; sleep 60; sleep 60; sleep 60"
    began = time.monotonic()
    result = _run(repo, stubborn, 0.5)
    assert time.monotonic() - began < 20
    assert not result.passed and result.excerpt() == "begun\n"
    assert "was stopped after 0.5 seconds" in result.how and "check.timeout" in result.how
    assert _is_gone(repo, "pid")
    assert not _run(repo, "trap 'exit 0' TERM; sleep 60 & wait", 0.5).passed  # whatever its exit code


def test_background_processes_do_not_delay_the_check(repo: GitRepo) -> None:
    """Processes of its group are killed. A process with its own session, such as a build server, stays, and the check
    does not wait for it."""
    daemon = "import os, time; os.setsid(); open('daemon', 'w').write(str(os.getpid())); time.sleep(60)"
    command = f'sleep 60 & echo $! >pid; "{sys.executable}" -c "{daemon}" & while ! test -s daemon; do sleep 0.02; done; echo ok'
    began = time.monotonic()
    result = _run(repo, command)
    assert result.passed and result.excerpt() == "ok\n" and time.monotonic() - began < 30
    assert _is_gone(repo, "pid")
    left = int(repo.read("daemon"))
    assert not gone(left)
    os.kill(left, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="needs subreapers")
def test_a_check_is_killed_with_the_program(repo: GitRepo, tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom repoagent.edit.checks import run_check\nfrom repoagent.edit.request import Check\n"
        "from repoagent.git.worktree import open_worktree\n"
        "run_check(Check('sleep 60 & echo $! >pid.new; mv pid.new pid; wait'), open_worktree(Path.cwd()), accepted=True)"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # the kill leaves its scratch folder there
    with subprocess.Popen([sys.executable, "-c", code], cwd=repo.top, env=env) as process:
        soon((repo.top / "pid").exists, 20)
        process.kill()
    assert _is_gone(repo, "pid")


def test_the_default_limit_is_half_an_hour(repo: GitRepo) -> None:
    _set("check", "true")
    assert _check(repo).timeout == 1800
    _set("check.timeout", "7")
    assert (_check(repo).command, _check(repo).timeout) == ("true", 7)
    _set("check.timeout", "none")
    assert _check(repo).timeout is None


def test_a_timeout_fails_the_edit_and_names_the_setting(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(GREET)
    limit = {"REPOAGENT_CHECK__TIMEOUT": "0.3"}
    done = edit("--max-turns", "1", "--check", "sleep 60", env=limit, code=6)
    assert repo.status() == ""
    assert "was stopped after 0.3 seconds" in done.err and "check.timeout" in done.err


def test_the_limit_after_a_failed_hook_is_a_line(repo: GitRepo, edit: Run, script: Script) -> None:
    repo.hook("pre-commit", "echo no tens here >&2; exit 1\n")
    script.replies(GREET)
    error = edit("--max-turns", "1", code=6).err
    assert "no tens here\nNothing was changed (reached the limit of 1 model call: " in error


def test_a_file_saved_during_a_failing_check_is_left(repo: GitRepo, edit: Run, script: Script) -> None:
    script.replies(GREET)
    done = edit("--check-unconfined", "--check", "echo mine > src/app.py; false", code=3)
    assert "another program has changed src/app.py" in done.err and len(script.prompts) == 1
    assert repo.read("src/app.py") == b"mine\n"


HOSTILE = """\
import os, socket
for act in (
    lambda: open(os.path.expanduser('~/owned'), 'w').close(),
    lambda: socket.create_connection(('127.0.0.1', int(open('port').read())), 5),
):
    try:
        act()
    except OSError as error:
        print(error)
os.makedirs('target/.pytest_cache', exist_ok=True)
open('target/made', 'w').close()"""


@in_sandbox
@pytest.mark.parametrize("how", ["edit", "run", "apply", "unconfined"])
def test_a_check_of_code_that_the_user_has_not_seen_is_confined(
    repo: GitRepo, run: Run, script: Script, clean_environment: Path, how: str
) -> None:
    """Code that the model adds to the tests can neither write to HOME nor connect to a listener; it can write
    artefacts."""
    repo.commit(**{".gitignore": "target/\nport\n", "tests/conftest.py": "pass\n", "target/x/y": "1\n"})
    patch = diff("tests/conftest.py", "-pass", *(f"+{line}" for line in HOSTILE.split("\n")))
    check = ("--check", f"'{sys.executable}' tests/conftest.py")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        (repo.top / "port").write_text(str(listener.getsockname()[1]))
        if how == "apply":
            done = program(repo.top, "apply", "--yes", *check, stdin=patch.encode())
        elif how == "run":
            script.replies(patch, "<finish>done</finish>")
            done = run("run", "do it", "--mode", "auto", *check)
        else:
            script.replies(patch)
            more = ("--check-unconfined",) if how == "unconfined" else ()
            done = run("edit", "tests/conftest.py", "do it", "--yes", *check, *more)
        reached = bool(select.select([listener], [], [], 0.2)[0])
    assert done.code == 0, done.err
    assert repo.git("log", "-1", "--format=%s", "--", "tests/conftest.py") != "first commit\n"
    assert (repo.top / "target/made").exists()
    assert ((clean_environment / "owned").exists(), reached) == (how == "unconfined", how == "unconfined")


@in_sandbox
def test_a_check_that_needs_home_or_network_names_the_option(edit: Run, script: Script) -> None:
    script.replies(GREET)
    assert "--check-unconfined" in edit("--max-turns", "1", "--check", "touch ~/mine", code=6).err
    _set("check.unconfined", "true")
    script.replies(GREET)
    edit("--check", "touch ~/mine")


@in_sandbox
def test_the_repository_cannot_disable_the_sandbox(repo: GitRepo) -> None:
    repo.write(".repoagent/config.toml", "[check]\nunconfined = true\n")
    _set("check", "true")
    assert _check(repo).confine is not None


@in_sandbox
def test_a_check_of_an_accepted_change_is_not_confined(repo: GitRepo, clean_environment: Path) -> None:
    _set("check", "touch ~/mine")
    worktree = open_worktree(repo.top)
    assert not run_check(_check(repo), worktree, accepted=False).passed
    assert run_check(_check(repo), worktree, accepted=True).passed
    assert (clean_environment / "mine").exists()


def _run(repo: GitRepo, command: str, timeout: float | None = None) -> CheckResult:
    return run_check(Check(command, timeout), open_worktree(repo.top), accepted=True)


def _set(key: str, value: str) -> None:
    set_value(user_file(os.environ), key, value)


def _check(repo: GitRepo) -> Check:
    found = check_of(load_settings(layout_of(open_worktree(repo.top)), flags={}))
    assert found is not None
    return found


def _is_gone(repo: GitRepo, file: str) -> bool:
    """Whether the process whose number is in `file` ends soon."""
    return soon(lambda: gone(int(repo.read(file))), 10)
