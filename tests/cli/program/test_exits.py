"""Errors: one sentence and one exit code, whatever happened."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest

from repoagent import errors
from repoagent.cli.app import cli
from repoagent.cli.run_program import called_as, run
from repoagent.errors import Exit
from tests.cli.screens import Screen, python
from tests.conftest import GitRepo

MAIN = "import sys; from repoagent.cli import main; main(['repoagent', *sys.argv[1:]])"
RUN = "import click, os, sys, time; from repoagent.cli.run_program import run\n"


def program(*arguments: str, code: str = MAIN, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(python(code, *arguments), capture_output=True, text=True, check=False, **more)


def raising(error: BaseException, *params: click.Parameter) -> click.Command:
    def callback(**_: object) -> None:
        raise error

    return click.Command("it", callback=callback, params=[click.Option(["--json"], is_flag=True), *params])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.NothingDone, 1), (errors.UsageError, 2), (errors.Refused, 3), (errors.ModelError, 4),
        (errors.LimitReached, 5), (errors.CheckFailed, 6), (errors.Busy, 7),
    ],
)  # fmt: skip
def test_each_error_is_one_line_or_an_object_and_has_its_exit_code(
    kind: type[errors.RepoagentError], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    error = raising(kind("no\udcff\x1b luck"))
    assert run(error, "repoagent", []) == code
    assert capfd.readouterr() == ("", "repoagent: no<FF>^[ luck\n")
    assert run(error, "repoagent", ["--json"]) == code
    out, err = capfd.readouterr()
    expected = {"kind": Exit(code).name.lower(), "exit": code, "message": "no\udcff\x1b luck"}
    assert (json.loads(out), err) == ({"version": 1, "error": expected}, "")


def test_an_error_of_the_system_is_refused(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.top)
    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM):
        assert run(raising(OSError(number, os.strerror(number), "x.txt")), "repoagent", []) == 3
        message = capfd.readouterr().err
        assert os.strerror(number) in message and "x.txt" in message and "fix this" in message


@pytest.mark.parametrize(("value", "code"), [(Exit.NOTHING, 1), (None, 0)])
def test_a_command_may_return_its_exit_code(value: object, code: int) -> None:
    assert run(click.Command("it", callback=lambda: value), "repoagent", []) == code


def test_wrong_usage_is_one_line_with_a_hint(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.top)
    for arguments, message in (
        (["edti"], "unknown command 'edti'; did you mean 'edit'?"),
        (["zzz"], "unknown command 'zzz' (see 'repoagent --help')"),
        (["a.txt", "add a line"], "did you mean `repoagent edit a.txt 'add a line'`?"),
        (["add a docstring"], "did you mean `repoagent run 'add a docstring'`?"),
        (["edit", "add a docstring"], "did you mean `repoagent run 'add a docstring'`?"),
        (["help", "edti"], "unknown command 'edti'; did you mean 'edit'?"),
        (["help", "memory", "shwo"], "unknown command 'shwo'; did you mean 'show'?"),
        (["help", "edit", "x"], "'repoagent edit' has no command 'x'"),
        (["help", "review", "x"], "'repoagent review' has no command 'x'"),
        (["--colr=never"], "no such option '--colr'"),
        (["edit", "--yess"], "no such option '--yess'; did you mean '--yes'? (see "),
        (["run", "--max-calls", "1"], "; did you mean '--max-cost', '--max-tokens', '--max-turns'? (see "),
        (["--color=blue"], "'blue' is not one of 'auto', 'always', 'never'"),
        (["neighbors"], "no file: name one, or use --map for the whole repository"),
        (["-C", "/nowhere", "config"], "cannot change to '/nowhere': No such file or directory"),
        (["config", "--", "--json"], "unknown option --json"),
    ):
        assert run(cli, "repoagent", arguments) == 2
        out, err = capfd.readouterr()
        assert out == "" and err.startswith("repoagent: ") and err.count("\n") == 1 and message in err
    assert run(cli, "repoagent", ["config", "--json", "--nonsense"]) == 2
    out, err = capfd.readouterr()
    assert (json.loads(out)["error"]["kind"], err) == ("usage", "")


def test_git_calls_it_by_another_name() -> None:
    assert called_as("/usr/lib/git-core/git-repoagent") == "git repoagent"
    assert called_as("/x/bin/repoagent") == called_as("/x/repoagent/__main__.py") == "repoagent"
    done = program(code="from repoagent.cli import main; main(['/x/git-repoagent', 'edti'])")
    assert "unknown command 'edti'" in done.stderr and "see 'git repoagent --help'" in done.stderr


def test_an_internal_error_leaves_a_report_without_secrets(
    repo: GitRepo, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo.top)
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-1")
    arguments = ["edit", "--token=hush2", "https://me:hush3@host", "sk-ant-hush456789012345"]
    command = raising(
        ValueError("no 'hush-hush-1'"), click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)
    )
    command.context_settings["ignore_unknown_options"] = True
    assert run(command, "repoagent", arguments) == 70
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"repoagent: internal error \(ValueError: no '\*\*\*'\); .*\.txt\n", err)
    (report,) = (repo.top / ".git" / "repoagent" / "reports").iterdir()
    assert str(report) in err
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert "hush" not in text
    for word in ("Traceback (most recent", "repoagent 0", "Python 3", "git version", "click", "'edit'"):
        assert word in text


def test_the_report_outside_a_repository_and_without_a_writable_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        assert run(raising(KeyError("x")), "repoagent", ["--json"]) == 70
        (report,) = tmp_path.iterdir()
        assert str(report) in json.loads(capfd.readouterr().out)["error"]["message"]
        # a pipe to a child process that breaks is an error, too
        assert run(raising(BrokenPipeError(errno.EPIPE, "Broken pipe")), "repoagent", []) == 70
        patch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        assert run(raising(KeyError("x")), "repoagent", []) == 70
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_a_missing_git_is_one_sentence(tmp_path: Path) -> None:
    done = program("config", env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "git is not on PATH" in done.stderr


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    script = f'"$0" -c "{MAIN}" config 2>err | true; echo "${{PIPESTATUS[0]}}"'
    command = ["bash", "-c", f"for n in 1 2 3; do {script}; done", python("")[0]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"0", "141"} and (tmp_path / "err").read_text() == ""
    code = RUN + (
        "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\n"
        "sys.exit(run(click.Command('it', callback=lambda: click.echo('x' * 100000)), 'repoagent', []))"
    )
    done = program(code=code)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            python(MAIN, "config"), cwd="/", stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "repoagent: cannot write to standard output: No space left on device\n"


def test_closed_standard_streams_are_not_reused_for_files() -> None:
    code = RUN + (
        "run(click.Command('it', callback=lambda: None), 'repoagent', [])\n"
        "files = [os.fstat(n).st_rdev for n in (0, 1, 2)]; null = os.stat(os.devnull).st_rdev\n"
        "os._exit(0 if files == [null] * 3 and all((sys.stdin, sys.stdout, sys.stderr)) else 9)"
    )
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *python(code)], check=False)
    assert done.returncode == 0


def test_control_c_is_130_without_a_traceback(tmp_path: Path) -> None:
    # Python can miss a signal that comes just before a long sleep: it would wait for the end of it
    code = RUN + (
        "def wait(): print('ready', flush=True); [time.sleep(0.05) for _ in range(1200)]\n"
        "sys.exit(run(click.Command('it', callback=wait), 'repoagent', []))"
    )
    with Screen(python(code), tmp_path) as screen:
        screen.answer("ready", "\x03")
        assert screen.end() == 130
    assert screen.seen.replace("\n", "") == "ready^C"  # only what the terminal echoes


PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n line 1\n-line 2\n+LINE 2\n"


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`line`, in which `$R` is the program."""
    setup = f'R="{sys.executable} -m repoagent"; '
    return subprocess.run(["bash", "-c", setup + line], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def patch(tmp_path: Path) -> Path:
    (tmp_path / "patch").write_text(PATCH)
    return tmp_path / "patch"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_commit_is_reported_on_standard_error_if_standard_output_is_full(
    repo: GitRepo, patch: Path
) -> None:
    before = repo.head()
    done = shell(f"$R apply --yes {patch} >/dev/full", repo.top)
    assert done.returncode == 0 and repo.head() != before
    assert "warning: cannot write to standard output: No space left" in done.stderr
    assert f"[main {repo.head()[:7]}]" in done.stderr
    done = shell("$R undo --json 2>&1 >/dev/full | cat; echo ${PIPESTATUS[0]}", repo.top)
    assert f'"commit": "{before}"' in done.stdout and done.stdout.endswith("\n0\n")
    done = shell(f"$R apply --yes {patch} 2>/dev/full; $R apply --yes --json {patch} >/dev/full", repo.top)
    assert done.stdout.startswith("[main ") and "Traceback" not in done.stderr
    assert done.returncode in (1, 3) and done.stderr.startswith("repoagent: ")


def test_a_commit_is_reported_if_standard_output_is_closed(repo: GitRepo, patch: Path) -> None:
    done = shell(f"$R apply --yes {patch} > >(exec <&-) ; echo $? >&2", repo.top)
    assert f"[main {repo.head()[:7]}]" in done.stderr and done.stderr.endswith("\n0\n")


def test_in_a_folder_that_was_removed(repo: GitRepo, patch: Path) -> None:
    for command in (f"apply --yes {patch}", "config", "ask hello"):
        done = shell(f"mkdir gone; cd gone; rmdir ../gone; $R {command}", repo.top)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("repoagent: the current folder was deleted; change to an existing one")
