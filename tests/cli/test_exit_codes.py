"""Errors: one sentence and one exit code, whatever happened."""

from __future__ import annotations

import errno
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
from tests.cli.apply_patch import TWO, Ask, Done
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


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    """Run a command in an empty folder, or in `cwd`."""

    def ran(command: click.Command, *arguments: str, cwd: Path = tmp_path) -> Done:
        monkeypatch.chdir(cwd)
        return Done(run(command, "repoagent", arguments), *capfd.readouterr())

    return ran


def test_each_outcome_has_its_exit_code_and_an_error_is_one_line_or_an_object(ran: Ask) -> None:
    for kind, code in (
        (errors.NothingDone, 1), (errors.UsageError, 2), (errors.Refused, 3), (errors.ModelError, 4),
        (errors.LimitReached, 5), (errors.CheckFailed, 6), (errors.Busy, 7),
    ):  # fmt: skip
        command = raising(kind("no\udcff\x1b luck"))
        assert ran(command) == Done(code, "", "repoagent: no<FF>^[ luck\n")
        done = ran(command, "--json")
        error = {"kind": Exit(code).name.lower(), "exit": code, "message": "no\udcff\x1b luck"}
        assert (done.code, done.json, done.err) == (code, {"version": 1, "error": error}, "")
    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM):
        done = ran(raising(OSError(number, os.strerror(number), "x.txt")))
        assert done.code == 3
        for part in (os.strerror(number), "x.txt", "fix this"):
            assert part in done.err
    for value, code in ((Exit.NOTHING, 1), (None, 0)):
        assert ran(click.Command("it", callback=lambda value=value: value)).code == code


def test_wrong_usage_is_one_line_with_a_hint(repo: GitRepo, ran: Ask) -> None:
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
        done = ran(cli, *arguments, cwd=repo.top)
        assert done.code == 2 and done.error.startswith("repoagent: ") and message in done.err
    done = ran(cli, "config", "--json", "--nonsense", cwd=repo.top)
    assert (done.code, done.json["error"]["kind"], done.err) == (2, "usage", "")


def test_every_command_suggests_the_nearest_file(repo: GitRepo, in_process: Ask) -> None:
    for words in (
        "outline src/ap.py", "history src/ap.py", "neighbors src/ap.py", "uses ap.py", "context src/ap.py",
        "review src/ap.py", "split src/ap.py", "outline --summary src/ap.py", "ask what? src/ap.py",
        "memory show src/ap.py", "memory note src/ap.py x", "conversation show file:src/ap.py",
        "edit a.txt x --read src/ap.py --yes", "edit src/ap.py", "edit app.py x --yes",
    ):  # fmt: skip
        done = in_process(*words.split(), REPOAGENT_MODEL="", code=2)  # reported before a missing model
        assert "did you mean src/app.py?" in done.error
    repo.write("docs/index.md", "x\n")
    error = in_process("history", "ap.py", "--json", cwd=repo.top / "docs").json["error"]
    assert error["near"] == [str(repo.top / "src/app.py")]
    assert error["message"].endswith("did you mean ../src/app.py?")


def test_git_calls_it_by_another_name() -> None:
    assert called_as("/usr/lib/git-core/git-repoagent") == "git repoagent"
    assert called_as("/x/bin/repoagent") == called_as("/x/repoagent/__main__.py") == "repoagent"
    done = program(code="from repoagent.cli import main; main(['/x/git-repoagent', 'edti'])")
    assert "unknown command 'edti'" in done.stderr and "see 'git repoagent --help'" in done.stderr


def test_an_internal_error_leaves_a_report_without_secrets(ran: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-1")
    arguments = ["edit", "--token=hush2", "https://me:hush3@host", "sk-ant-hush456789012345"]
    rest = click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)
    command = raising(ValueError("no 'hush-hush-1'"), rest)
    command.context_settings["ignore_unknown_options"] = True
    done = ran(command, *arguments)
    assert (done.code, done.out) == (70, "")
    message = re.fullmatch(
        r"repoagent: internal error \(ValueError: no '\*\*\*'\); .* (/\S*\.txt)\n", done.err
    )
    assert message
    report = Path(message[1])
    assert report.stat().st_mode & 0o777 == 0o600
    text = report.read_text()
    assert "hush" not in text
    for word in ("Traceback (most recent", "repoagent 0", "Python 3", "git version", "click", "'edit'"):
        assert word in text
    report.unlink()


def test_the_report_without_a_writable_folder(tmp_path: Path, ran: Ask) -> None:
    with pytest.MonkeyPatch.context() as patch:  # pytest needs the folder, too
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        done = ran(raising(KeyError("x")), "--json")
        (report,) = tmp_path.iterdir()
        assert done.code == 70 and str(report) in done.json["error"]["message"]
        # a pipe to a child process that breaks is an error, too
        assert ran(raising(BrokenPipeError(errno.EPIPE, "Broken pipe"))).code == 70
        patch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        done = ran(raising(KeyError("x")))
        assert done.code == 70 and "Traceback (most recent call last)" in done.err


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


def shell(repo: GitRepo, line: str) -> subprocess.CompletedProcess[str]:
    """`line`, in which `$R` is the program and `$P` a patch."""
    repo.write("../patch", TWO)
    command = ["bash", "-c", f'R="{sys.executable} -m repoagent" P=../patch; {line}']
    return subprocess.run(command, cwd=repo.top, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_if_standard_output_is_full_standard_error_has_the_result(repo: GitRepo) -> None:
    done = shell(repo, "$R config >/dev/full")
    assert done.returncode == 3
    assert done.stderr == "repoagent: cannot write to standard output: No space left on device\n"
    before = repo.head()
    done = shell(repo, "$R apply --yes $P >/dev/full")
    assert done.returncode == 0 and repo.head() != before
    assert "warning: cannot write to standard output: No space left" in done.stderr
    assert f"[main {repo.head()[:7]}]" in done.stderr
    done = shell(repo, "$R undo --json 2>&1 >/dev/full | cat; echo ${PIPESTATUS[0]}")
    assert f'"commit": "{before}"' in done.stdout and done.stdout.endswith("\n0\n")
    done = shell(repo, "$R apply --yes $P 2>/dev/full; $R apply --yes --json $P >/dev/full")
    assert done.stdout.startswith("[main ") and "Traceback" not in done.stderr
    assert done.returncode in (1, 3) and done.stderr.startswith("repoagent: ")
    done = shell(repo, "$R undo >/dev/null; $R apply --yes --json $P >/dev/full")
    assert done.returncode == 0 and f'"commit": "{repo.head()}"' in done.stderr


def test_a_commit_is_reported_if_standard_output_is_closed(repo: GitRepo) -> None:
    done = shell(repo, "$R apply --yes $P > >(exec <&-) ; echo $? >&2")
    assert f"[main {repo.head()[:7]}]" in done.stderr and done.stderr.endswith("\n0\n")


def test_in_a_folder_that_was_removed(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for words in ("apply --yes fix.patch", "config", "ask hello"):
        (repo.top / "gone").mkdir()
        monkeypatch.chdir(repo.top / "gone")
        (repo.top / "gone").rmdir()
        done = Done(run(cli, "repoagent", words.split()), *capfd.readouterr())
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("repoagent: the current folder was deleted; change to an existing one")
