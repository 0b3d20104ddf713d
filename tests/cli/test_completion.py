"""Completion: the kinds of parameters, candidates, the shells, and speed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repoagent.cli.app import cli
from repoagent.cli.completion import finder_of
from tests.cli.test_help import every_command
from tests.conftest import GitRepo
from tests.program import run


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
