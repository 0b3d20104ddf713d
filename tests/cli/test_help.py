"""The help, in groups; `repoagent help`; the global options anywhere; no command at all; completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from repoagent.cli.app import GROUPS, HIDDEN, cli
from repoagent.cli.completion import finder_of
from repoagent.cli.options import LONG, GroupedCommand, show_all_options
from repoagent.cli.run_program import run as run_in_process
from repoagent.errors import Exit
from tests.cli.apply_patch import Ask
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.edit.conftest import Open, Run, Script
from tests.program import run

OPTION = re.compile(r"^  (?:-\w, )?(--[\w-]+)", re.MULTILINE)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def shown(*arguments: str, width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        assert run_in_process(cli, "repoagent", arguments) == 0
        output = capsys.readouterr()
        assert output.err == ""
        return output.out

    return shown


def every_command(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """`command` and all below it, with their names."""
    yield name, command
    with click.Context(command) as ctx:
        if isinstance(command, click.Group):
            for word in command.list_commands(ctx):
                if inner := command.get_command(ctx, word):
                    yield from every_command(inner, f"{name} {word}")
    for word, verb in getattr(command, "verbs", {}).items():
        yield f"{name} {word}", verb


def test_help_has_each_command_in_its_group(shown: Callable[..., str]) -> None:
    text = shown("--help", width=60)
    assert max(map(len, text.splitlines())) <= 60
    sections = dict(re.findall(r"^(\w+):\n((?:  .*\n)+)", text, re.MULTILINE))
    assert [*sections] == ["Do", "Look", "Review", "Manage", "Options"]
    for heading, names in GROUPS.items():
        assert re.findall(r"^  (\w+)", sections[heading], re.MULTILINE) == [*names]
    assert not any(re.search(rf"^  {name} ", text, re.MULTILINE) for name in HIDDEN)
    assert "repoagent help exit-codes" in " ".join(text.split()) and "130" not in text


def test_help_shows_what_the_option_shows_and_every_exit_code(shown: Callable[..., str]) -> None:
    for words in ("", "edit", "memory show", "config init", "review dismiss"):
        assert shown("help", *words.split()) == shown(*words.split(), "--help")
    text = shown("help", "exit-codes")
    assert {int(code) for code in re.findall(r"^ +(\d+) +\w", text, re.MULTILINE)} == {*map(int, Exit)}


def test_help_of_each_command_is_short_and_fits_80_columns(shown: Callable[..., str]) -> None:
    long = set()
    for name, command in every_command(cli, "repoagent"):
        settings = {**cli.context_settings, **command.context_settings}
        with click.Context(command, info_name=name, **settings) as ctx:
            ctx.terminal_width = 80  # click keeps the first help option that it makes, so -h must be in it
            few = command.get_help(ctx)
            show_all_options(ctx)
            text = command.get_help(ctx)
        assert not [line for line in text.splitlines() if len(line) > 80], name
        options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
        groups = command.option_groups if isinstance(command, GroupedCommand) else {}
        named = [param for names in groups.values() for param in names]
        assert len(named) == len({*named}) and {*named} <= {param.name for param in options}, name
        if not groups:
            assert len(options) <= LONG and "Exit codes:" not in text, name
        elif getattr(command, "is_long", False):
            long.add(name.removeprefix("repoagent "))
            assert {param.name for param in options} - {*named} == {"help_all"}, name
            first, every = {*OPTION.findall(few)}, {*OPTION.findall(text)}
            assert 10 <= len(first - {"--help", "--help-all"}) <= 12
            assert every == {param.opts[-1] for param in options} | {"--help"} and first < every
            assert re.search(r"^Commit:$|^Model:$", text, re.MULTILINE)
    assert long == {"edit", "run", "chat", "review", "apply"}
    assert "Commit:" in shown("edit", "--help-all")


def test_global_options_work_after_the_command(repo: GitRepo, in_process: Ask) -> None:
    assert "\x1b[" in in_process("outline", "src/app.py", "--color", "always").out
    assert in_process("outline", "src/app.py", "--color", "blue").code == 2
    for words in ("-v edit a.txt", "edit a.txt -v", "edit a.txt --verbose"):
        done = in_process(*words.split(), "x", "--yes", "--model", "nonsense")
        assert done.code != 0 and "Traceback" in done.err
    expected = in_process("outline", "app.py", cwd=repo.top / "src").out
    for words in ("-C src outline app.py", "outline -C src app.py", "outline app.py -C .. -C repo/src"):
        assert expected and in_process(*words.split()).out == expected
    for arguments in (["hook", "-C", str(repo.top), "status"], ["hook", "status", "-C", str(repo.top)]):
        assert in_process(*arguments, cwd=repo.top.parent).code == 0
    done = in_process("hook", "status", "-C", "/nowhere")
    assert done.code == 2 and "cannot change to '/nowhere': No such file or directory\n" in done.err


def test_options_of_git_are_passed_in_the_environment(repo: GitRepo, in_process: Ask, tmp_path: Path) -> None:
    env = {"GIT_DIR": f"{repo.top}/.git", "GIT_WORK_TREE": str(repo.top)}  # `git --git-dir --work-tree`
    assert "\na.txt " in in_process("neighbors", f"{repo.top}/src/app.py", cwd=tmp_path, **env).out
    config = "'repoagent.maxturns'='4'"  # and `git -c`
    assert in_process("config", "max_turns", GIT_CONFIG_PARAMETERS=config).out == "4\n"


def test_bare_repoagent_on_a_terminal_is_a_chat(screen: Open, script: Script) -> None:
    script.replies("Hello there.")
    with screen(TERM="dumb") as window:
        window.expect("/help shows the commands")
        window.answer("> ", "hello\n")
        window.expect("Hello there.")
        window.answer("> ", "\x04")
        assert window.end() == 0


def test_bare_repoagent_explains_models_or_prints_the_help(repo: GitRepo, run: Run, tmp_path: Path) -> None:
    with Screen(PROGRAM, repo.top, width=80, env={"NO_COLOR": "1"}) as screen:
        assert screen.end() == 4
    assert "no model is configured" in screen.seen and "export ANTHROPIC_API_KEY" in screen.seen
    assert max(map(len, re.sub(r"\x1b\[[0-9;?]*\w", "", screen.seen).splitlines())) <= 80
    piped = run()  # in a pipe, and outside a repository
    assert (piped.code, piped.err) == (1, "") and "Do:" in piped.out
    with Screen(PROGRAM, tmp_path, env={"GIT_CEILING_DIRECTORIES": str(tmp_path)}) as screen:
        assert screen.end() == 1
    assert "Do:" in screen.seen


def complete(cwd: Path, instruction: str, line: str = "") -> tuple[int, str, str]:
    """The exit code and the output of a process of its own: completion changes the commands."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = run([], cwd, env={"_REPOAGENT_COMPLETE": instruction, **words})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def offered(cwd: Path, line: str) -> list[str]:
    """The values for the last word of `line`; `<file>` and `<dir>` mean names completed by the shell."""
    code, out, err = complete(cwd, "bash_complete", line)
    assert (code, err) == (0, "")
    parts = [candidate.partition(",") for candidate in out.split()]
    return [value if kind == "plain" else f"<{kind}>" for kind, _, value in parts]


@pytest.mark.soak
def test_values(repo: GitRepo) -> None:
    repo.git("branch", "topic/one")
    repo.git("tag", "v1.0")
    repo.git("config", "repoagent.alias.quick", "anthropic/claude-haiku-5-5")
    for line, values in (
        ("neighbors --at to", ["topic/one"]),
        ("neighbors --at=v", ["v1.0"]),
        ("edit --model qui", ["quick"]),
        ("models test qui", ["quick"]),
        ("config max_t", ["max_turns", "max_tokens"]),
        ("split -o s", ["<dir>"]),
        ("history a.txt --at main..v", ["main..v1.0"]),
        ("history a.txt --at HE", ["HEAD", "HEAD~", "HEAD^"]),
        ("neighbors a", ["<file>"]),
        ("neighbors -- --", ["<file>"]),
        ("outline a --kind cl", ["class"]),
        ("edit --model command", ["command:"]),
    ):
        assert offered(repo.top, f"repoagent {line}") == values, line


def test_outside_a_repository_there_are_no_candidates_and_no_instruction_but_ours(tmp_path: Path) -> None:
    for line in ("repoagent neighbors --at ", "repoagent memory show ", "repoagent runs show "):
        assert not {*offered(tmp_path, line)} - {"HEAD", "HEAD~", "HEAD^", "<file>"}
    assert list(tmp_path.iterdir()) == []
    assert complete(tmp_path, "csh_complete", "repoagent ")[0] == 1
    script = run(["completion", "zsh"], tmp_path).stdout.decode()
    assert complete(tmp_path, "zsh_source") == (0, script, "") and script


def test_every_command_s_files_revisions_and_models_are_completed() -> None:
    """By the word in the help, so that new commands are completed, too."""
    result: set[str] = set()
    for name, command in every_command(cli, "repoagent"):
        for param in command.params:
            words = {*re.findall(r"\b[A-Z]{2,}\b", param.metavar or "")}
            if words & {"FILE", "PATH", "DIR", "REV", "REF", "SPEC"} and not param._custom_shell_complete:
                assert finder_of(param), (name, param.name, param.metavar)
                result.update(words)
    assert result >= {"FILE", "PATH", "DIR", "REV", "SPEC"}
