"""The help: commands in groups, options in groups, `repoagent help`, and the global options anywhere."""

from __future__ import annotations

import os
import re

import click

from repoagent.cli.app import COMMANDS, GROUPS, HIDDEN, cli
from repoagent.cli.click_commands import LONG, Command, show_all_options
from repoagent.errors import Exit
from tests.cli.screens import PROGRAM, Screen
from tests.conftest import GitRepo
from tests.program import run


def shown(*arguments: str, width: int = 80) -> str:
    done = run(arguments, "/", env={"COLUMNS": str(width)})
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_the_help_has_each_command_in_its_group_and_fits() -> None:
    text = shown("--help", width=60)
    assert max(map(len, text.splitlines())) <= 60
    sections = dict(re.findall(r"^(\w+):\n((?:  .*\n)+)", text, re.MULTILINE))
    assert [*sections] == ["Do", "Look", "Review", "Manage", "Options"]
    for heading, names in GROUPS.items():
        assert re.findall(r"^  (\w+)", sections[heading], re.MULTILINE) == [*names]
    assert not any(re.search(rf"^  {name} ", text, re.MULTILINE) for name in HIDDEN)
    assert "repoagent help exit-codes" in " ".join(text.split()) and "130" not in text


def test_help_shows_what_the_option_shows() -> None:
    for words in ("", "edit", "memory show", "config init", "review dismiss"):
        assert shown("help", *words.split()) == shown(*words.split(), "--help")


def test_one_page_has_every_exit_code() -> None:
    text = shown("help", "exit-codes")
    assert {int(code) for code in re.findall(r"^ +(\d+) +\w", text, re.MULTILINE)} == {*map(int, Exit)}
    assert all("Exit codes" not in shown(name, "--help") for name in COMMANDS)


def test_help_of_an_unknown_command() -> None:
    for words, message in (
        ("edti", "unknown command 'edti'; did you mean 'edit'?"),
        ("memory shwo", "unknown command 'shwo'; did you mean 'show'?"),
        ("edit x", "'repoagent edit' has no command 'x'"),
        ("review x", "'repoagent review' has no command 'x'"),
    ):
        done = run(["help", *words.split()], "/")
        assert (done.returncode, done.stdout) == (2, b"")
        assert message in done.stderr.decode() and done.stderr.count(b"\n") == 1


def commands() -> dict[str, click.Command]:
    with click.Context(cli) as ctx:
        return {name: command for name in COMMANDS if (command := cli.get_command(ctx, name))}


def test_long_commands_show_few_options_and_all_of_them_on_request() -> None:
    long = {name for name, command in commands().items() if getattr(command, "is_long", False)}
    assert long == {"edit", "run", "chat", "review", "apply"}
    for name in long:
        few, every = shown(name, "--help"), shown(name, "--help-all")
        named = {*re.findall(r"^  (?:-\w, )?(--[\w-]+)", few, re.MULTILINE)}
        assert 10 <= len(named - {"--help", "--help-all"}) <= 12
        whole = {*re.findall(r"^  (?:-\w, )?(--[\w-]+)", every, re.MULTILINE)}
        options = [one for one in commands()[name].params if isinstance(one, click.Option) and not one.hidden]
        assert whole == {one.opts[-1] for one in options} | {"--help"} and named < whole
        assert re.search(r"^Commit:$|^Model:$", every, re.MULTILINE)


def test_a_group_of_options_names_each_once_and_no_long_command_lacks_groups() -> None:
    for name, command in commands().items():
        options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        if not isinstance(command, Command) or not command.option_groups:
            assert len(options) <= LONG, name
            continue
        named = [one for names in command.option_groups.values() for one in names]
        known = {one.name for one in options}
        assert len(named) == len({*named}) and {*named} <= known, name
        if command.is_long:
            assert known - {*named} == {"help_all"}, name


def test_a_folder_is_changed_to_before_and_after_the_command(repo: GitRepo) -> None:
    expected = run(["outline", "app.py"], repo.top / "src").stdout
    for words in ("-C src outline app.py", "outline -C src app.py", "outline app.py -C .. -C repo/src"):
        assert expected and run(words.split(), repo.top).stdout == expected
    for arguments in (["hook", "-C", str(repo.top), "status"], ["hook", "status", "-C", str(repo.top)]):
        assert run(arguments, "/").returncode == 0
    done = run(["hook", "status", "-C", "/nowhere"], repo.top)
    assert done.returncode == 2 and b"cannot change to '/nowhere': No such file or directory\n" in done.stderr


def test_color_and_the_pager_are_set_after_the_command(repo: GitRepo) -> None:
    assert b"\x1b[" in run(["outline", "src/app.py", "--color", "always"], repo.top).stdout
    assert run(["outline", "src/app.py", "--color", "blue"], repo.top).returncode == 2
    env = {**os.environ, "GIT_PAGER": "sed s/^/P:/", "CI": ""}
    for arguments, paged in ((["config"], True), (["config", "--no-pager"], False)):
        with Screen([*PROGRAM, *arguments], repo.top, env=env) as screen:
            screen.end()
        assert ("P:" in screen.seen) == paged


def test_verbose_after_the_command_shows_why(repo: GitRepo) -> None:
    for arguments in (["-v", "edit", "a.txt"], ["edit", "a.txt", "-v"], ["edit", "a.txt", "--verbose"]):
        done = run([*arguments, "x", "--yes", "--model", "nonsense"], repo.top)
        assert done.returncode != 0 and b"Traceback" in done.stderr


def test_the_help_of_each_command_fits_80_columns() -> None:
    def check(command: click.Command, name: str, parent: click.Context) -> None:
        with click.Context(command, info_name=name, parent=parent, **command.context_settings) as ctx:
            ctx.terminal_width = 80
            show_all_options(ctx)
            wide = [line for line in command.get_help(ctx).splitlines() if len(line) > 80]
            assert not wide, f"{ctx.command_path}: {wide}"
            if isinstance(command, click.Group):
                for word in command.list_commands(ctx):
                    if result := command.get_command(ctx, word):
                        check(result, word, ctx)
        for word, verb in getattr(command, "verbs", {}).items():
            check(verb, f"{name} {word}", parent)

    with click.Context(cli, info_name="repoagent", **cli.context_settings) as root:
        for name, command in commands().items():
            check(command, name, root)
