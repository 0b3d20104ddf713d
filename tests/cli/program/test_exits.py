"""How a run ends: one sentence, one exit code, whatever happened."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from pathlib import Path

import click
import pytest

from repoagent import errors
from repoagent.cli.run_program import called_as, run
from repoagent.errors import Exit
from tests.cli.screens import Screen, python
from tests.conftest import GitRepo

MAIN = "import sys; from repoagent.cli import main; main(['repoagent', *sys.argv[1:]])"


def program(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(python(MAIN, *arguments), capture_output=True, text=True, check=False, **more)


def raising(error: BaseException) -> click.Command:
    def callback(**_: object) -> None:
        raise error

    return click.Command("it", callback=callback, params=[click.Option(["--json"], is_flag=True)])


EXPECTED = [
    (errors.NothingDone, 1),
    (errors.UsageError, 2),
    (errors.Refused, 3),
    (errors.ModelError, 4),
    (errors.LimitReached, 5),
    (errors.CheckFailed, 6),
    (errors.Busy, 7),
]


@pytest.mark.parametrize(("kind", "code"), EXPECTED)
def test_each_error_has_its_exit_code_and_is_one_line(
    kind: type[errors.RepoagentError], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(kind("no such luck")), "repoagent", []) == code
    assert capfd.readouterr() == ("", "repoagent: no such luck\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_the_system_refuses_is_no_error_of_ours(
    number: int, repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.top)
    assert run(raising(OSError(number, os.strerror(number), "x.txt")), "repoagent", []) == 3
    said = capfd.readouterr().err
    assert os.strerror(number) in said and "x.txt" in said and "fix this" in said


@pytest.mark.parametrize(("kind", "code"), EXPECTED)
def test_with_json_the_error_is_an_object_on_standard_output(
    kind: type[errors.RepoagentError], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(raising(kind("no\udcff\x1b luck")), "repoagent", ["--json"]) == code
    out, err = capfd.readouterr()
    error = {"kind": Exit(code).name.lower(), "exit": code, "message": "no\udcff\x1b luck"}
    assert (json.loads(out), err) == ({"version": 1, "error": error}, "")


def test_no_escape_sequence_of_an_error_reaches_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    run(raising(errors.Refused("file \x1b]0;owned\x07\u202etxt.exe")), "repoagent", [])
    assert capfd.readouterr().err == "repoagent: file ^[]0;owned^G<U+202E>txt.exe\n"


def test_a_command_may_return_its_exit_code() -> None:
    assert run(click.Command("it", callback=lambda: Exit.NOTHING), "repoagent", []) == 1
    assert run(click.Command("it", callback=lambda: None), "repoagent", []) == 0
    assert run(click.Command("it", callback=lambda: True), "repoagent", []) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["edti"], "unknown command 'edti'; did you mean 'edit'?"),
        (["zzz"], "unknown command 'zzz' (see 'repoagent --help')"),
        (["--colr=never"], "no such option '--colr'"),
        (["--color=blue"], "'blue' is not one of 'auto', 'always', 'never'"),
        (["neighbors"], "no file: name one, or use --map for the whole repository"),
        (["-C", "/nowhere", "config"], "cannot change to '/nowhere': No such file or directory"),
    ],
)
def test_wrong_usage_is_one_line_that_says_what_was_meant(arguments: list[str], message: str) -> None:
    done = program(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.startswith("repoagent: ")
    assert done.stderr.count("\n") == 1


def test_wrong_usage_with_json() -> None:
    done = program("config", "--json", "--nonsense")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["kind"] == "usage"
    assert done.stderr == ""


def test_after_two_dashes_json_is_no_option() -> None:
    done = program("config", "--", "--json")
    assert done.stdout == ""
    assert "unknown option --json" in done.stderr


def test_without_a_command_and_a_terminal_it_prints_the_help_as_git_does() -> None:
    done = program()
    assert (done.returncode, done.stderr) == (1, "")
    assert "Do:" in done.stdout


def test_git_s_own_way_to_call_it() -> None:
    assert called_as("/usr/lib/git-core/git-repoagent") == "git repoagent"
    assert called_as("/x/bin/repoagent") == called_as("/x/repoagent/__main__.py") == "repoagent"
    done = subprocess.run(
        python("from repoagent.cli import main; main(['/x/git-repoagent', 'edti'])"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "unknown command 'edti'" in done.stderr and "see 'git repoagent --help'" in done.stderr


def test_dash_c_is_git_s(repo: GitRepo) -> None:
    (repo.top / "a" / "b").mkdir(parents=True)
    repo.git("config", "repoagent.model", "manual")
    done = program("-C", str(repo.top), "-C", "a", "-C", "", "-C", "b", "config", "model", cwd="/")
    assert done.stdout == "manual\n"


def test_an_internal_error_leaves_a_report_without_secrets(
    repo: GitRepo, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo.top)
    monkeypatch.setenv("SOME_API_KEY", "hush-hush-1")
    arguments = ["edit", "--token=hush2", "https://me:hush3@host", "sk-ant-hush456789012345"]
    command = raising(ValueError("no 'hush-hush-1'"))
    command.params.append(click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED))
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
    assert "Traceback (most recent call last)" in text
    for word in ("repoagent 0", "Python 3", "git version", "click", "'edit'", "ValueError"):
        assert word in text


def test_outside_a_repository_the_report_is_in_the_temporary_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        assert run(raising(KeyError("x")), "repoagent", ["--json"]) == 70
    (report,) = tmp_path.iterdir()
    assert str(report) in json.loads(capfd.readouterr().out)["error"]["message"]


def test_where_no_report_can_be_written_the_screen_has_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
        assert run(raising(KeyError("x")), "repoagent", []) == 70
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_a_missing_git_is_said_in_a_sentence(tmp_path: Path) -> None:
    done = program("config", env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "git is not on PATH" in done.stderr


def test_verbose_shows_where_an_error_comes_from(capfd: pytest.CaptureFixture[str]) -> None:
    command = raising(errors.Refused("no"))
    command.params.append(click.Option(["-v"], is_flag=True))
    assert run(command, "repoagent", ["-v"]) == 3
    assert "Traceback" in capfd.readouterr().err


def test_a_reader_that_has_gone_is_no_error(tmp_path: Path) -> None:
    script = f'"$0" -c "{MAIN}" config 2>err | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", f"for n in 1 2 3; do {script}; done", python("")[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"0", "141"}
    assert (tmp_path / "err").read_text() == ""


def test_a_reader_that_has_gone_for_sure(capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, sys, click; from repoagent.cli.run_program import run\n"
        "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\n"
        "sys.exit(run(click.Command('it', callback=lambda: click.echo('x' * 100000)), 'repoagent', []))"
    )
    done = subprocess.run(python(code), stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_broken_pipe_of_a_program_we_started_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(raising(BrokenPipeError(errno.EPIPE, "Broken pipe")), "repoagent", []) == 70
    path = re.search(r"/\S+\.txt", capfd.readouterr().err)
    assert path
    Path(path[0]).unlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said_and_fails() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            python(MAIN, "config"), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "repoagent: cannot write to standard output: No space left on device\n"


def test_closed_standard_streams_are_not_reused_for_files() -> None:
    code = "import os, sys; from repoagent.cli.run_program import run; import click\n" + (
        "run(click.Command('it', callback=lambda: None), 'repoagent', [])\n"
        "files = [os.fstat(n).st_rdev for n in (0, 1, 2)]; null = os.stat(os.devnull).st_rdev\n"
        "os._exit(0 if files == [null] * 3 and all((sys.stdin, sys.stdout, sys.stderr)) else 9)"
    )
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *python(code)], check=False)
    assert done.returncode == 0


def test_control_c_is_130_without_a_traceback(tmp_path: Path) -> None:
    code = (
        "import click, sys, time; from repoagent.cli.run_program import run\n"
        "def wait(): print('ready', flush=True); time.sleep(60)\n"
        "sys.exit(run(click.Command('it', callback=wait), 'repoagent', []))"
    )
    with Screen(python(code), tmp_path) as screen:
        screen.expect("ready")
        screen.send("\x03")
        assert screen.end() == 130
    assert screen.seen.replace("\n", "") == "ready^C"  # no more than what the terminal echoes


def test_system_exit_goes_through() -> None:
    with pytest.raises(SystemExit):
        run(raising(SystemExit(9)), "repoagent", [])


def test_python_dash_m_is_the_same_program() -> None:
    done = subprocess.run([*python("")[:1], "-m", "repoagent", "--version"], capture_output=True, check=True)
    assert re.fullmatch(rb"repoagent \d+\.\d+\.\d+\n", done.stdout)


def test_every_command_of_the_table_can_be_loaded() -> None:
    from repoagent.cli.app import COMMANDS, cli

    with cli.make_context("repoagent", ["config"]) as ctx:
        for name in COMMANDS:
            command = cli.get_command(ctx, name)
            assert isinstance(command, click.Command)
