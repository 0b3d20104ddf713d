"""Completion: the kinds of parameters, candidates, the shells, and speed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from repoagent.cli.app import cli
from repoagent.cli.completion import finder_of
from tests.cli.apply_patch import Done
from tests.conftest import GitRepo
from tests.program import run

MAIN = "import sys; sys.argv[0] = 'repoagent'; from repoagent.cli import main; main()"


def complete(cwd: Path, instruction: str, line: str = "") -> Done:
    """A process of its own: completion changes the commands."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = run([], cwd, env={"_REPOAGENT_COMPLETE": instruction, **words})
    return Done(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))


def offered(cwd: Path, line: str) -> list[str]:
    """The values for the last word of `line`; `<file>` and `<dir>` mean names completed by the shell."""
    done = complete(cwd, "bash_complete", line)
    assert (done.code, done.err) == (0, "")
    parts = [candidate.partition(",") for candidate in done.out.split()]
    return [value if kind == "plain" else f"<{kind}>" for kind, _, value in parts]


VALUES = (
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
)


@pytest.mark.soak
def test_values(repo: GitRepo) -> None:
    repo.git("branch", "topic/one")
    repo.git("tag", "v1.0")
    repo.git("config", "repoagent.alias.quick", "anthropic/claude-haiku-5-5")
    for line, values in VALUES:
        assert offered(repo.top, f"repoagent {line}") == values, line


def test_outside_a_repository_there_are_no_candidates_and_no_instruction_but_ours(tmp_path: Path) -> None:
    for line in ("repoagent neighbors --at ", "repoagent memory show ", "repoagent runs show "):
        assert not {*offered(tmp_path, line)} - {"HEAD", "HEAD~", "HEAD^", "<file>"}
    assert list(tmp_path.iterdir()) == []
    assert complete(tmp_path, "csh_complete", "repoagent ").code == 1
    script = complete(tmp_path, "zsh_source").out.encode()
    assert script == run(["completion", "zsh"], tmp_path).stdout != b""


def test_every_command_s_files_revisions_and_models_are_completed() -> None:
    """By the word in the help, so that new commands are completed, too."""
    result: set[str] = set()

    def walk(command: click.Command, ctx: click.Context) -> None:
        for param in command.params:
            words = {*re.findall(r"\b[A-Z]{2,}\b", param.metavar or "")}
            if words & {"FILE", "PATH", "DIR", "REV", "REF", "SPEC"} and not param._custom_shell_complete:
                assert finder_of(param), (ctx.command_path, param.name, param.metavar)
                result.update(words)
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                inner = command.get_command(ctx, name)
                assert inner is not None
                with click.Context(inner, info_name=name, parent=ctx, **inner.context_settings) as below:
                    walk(inner, below)

    with click.Context(cli, info_name="repoagent", **cli.context_settings) as ctx:
        walk(cli, ctx)
    assert result >= {"FILE", "PATH", "DIR", "REV", "SPEC"}
