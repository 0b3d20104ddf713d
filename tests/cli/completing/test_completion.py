"""Completion: parsing the line, the kinds of parameters, candidates, and speed."""

from __future__ import annotations

import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repoagent.cli.completion import Typed, after_program, finder_of, quoted, read
from tests.conftest import GitRepo
from tests.program import run

BREAKS = " \t\n\"'@><=;|&(:"
MAIN = "import sys; sys.argv[0] = 'repoagent'; from repoagent.cli import main; main()"


def offered(cwd: Path, line: str, shell: str = "bash", **env: str) -> list[str]:
    """The values for the last word of `line`; `file` and `dir` mean names completed by the shell."""
    request = {
        "_REPOAGENT_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": line,
        "COMP_WORDBREAKS": BREAKS,
        **env,
    }
    done = run([], cwd, env=request)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = os.fsdecode(done.stdout).splitlines()
    return (
        [one.partition(",")[2] or f"<{one.partition(',')[0]}>" for one in lines] if shell == "bash" else lines
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", Typed([], "")),
        ("a b", Typed(["a"], "b")),
        ("a  b ", Typed(["a", "b"], "")),
        ("a 'b c' \"d e", Typed(["a", "b c"], "d e", '"')),
        ("a b\\ c\\", Typed(["a"], "b c")),
        ('a "x\\"y\\z', Typed(["a"], 'x"y\\z', '"')),
        ("a '' b", Typed(["a", ""], "b")),
        ("a --at=ma", Typed(["a"], "--at=ma", "", 5)),
        ("a x:y=z", Typed(["a"], "x:y=z", "", 4)),
        ("a 'x:y", Typed(["a"], "x:y", "'", 0)),
    ],
)
def test_a_line_is_read_as_bash_reads_it(line: str, expected: Typed) -> None:
    assert read(line, ":=") == expected


@settings(max_examples=50)
@given(st.lists(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1), min_size=1))
def test_quoted_words_are_read_back(words: list[str]) -> None:
    line = " ".join(quoted(word) for word in words)
    assert read(f"{line} ").words == words
    assert shlex.split(line) == words
    for mark in ("'", '"'):
        assert read(" ".join(f"{mark}{quoted(word, mark)}{mark}" for word in words) + " ").words == words


@pytest.mark.parametrize(
    ("words", "arguments", "folders"),
    [
        (["repoagent", "edit"], ["edit"], ()),
        (["/x/git-repoagent", "-C", "a", "edit"], ["-C", "a", "edit"], ("a",)),
        (["git", "repoagent", "edit"], ["edit"], ()),
        (["git", "-C", "a", "-c", "x=y", "--no-pager", "repoagent", "-C", "b"], ["-C", "b"], ("a", "b")),
        (["git", "--git-dir", "repoagent", "repoagent"], [], ()),
    ],
)
def test_git_s_own_options_come_before(
    words: list[str], arguments: list[str], folders: tuple[str, ...]
) -> None:
    assert after_program(words) == (arguments, folders)


@pytest.mark.parametrize("words", [[], ["git"], ["git", "add", "repoagent"], ["git", "-C", "repoagent"]])
def test_other_commands_of_git_are_not_completed(words: list[str]) -> None:
    assert after_program(words) is None


@pytest.mark.soak
def test_revisions_files_keys_and_models(repo: GitRepo) -> None:
    repo.git("branch", "topic/one")
    repo.git("tag", "v1.0")
    repo.git("config", "repoagent.alias.quick", "anthropic/claude-haiku-5-5")
    assert offered(repo.top, "repoagent neighbors --at to") == ["topic/one"]
    assert offered(repo.top, "repoagent neighbors --at=v") == ["v1.0"]
    assert offered(repo.top, "repoagent edit --model qui") == ["quick"]
    assert offered(repo.top, "repoagent config max_t") == ["max_turns", "max_tokens"]


@pytest.mark.soak
def test_more_values(repo: GitRepo) -> None:
    repo.git("tag", "v1.0")
    assert offered(repo.top, "repoagent split -o s") == ["<dir>"]
    assert offered(repo.top, "repoagent history a.txt --at main..v") == ["main..v1.0"]
    assert offered(repo.top, "repoagent history a.txt --at HE") == ["HEAD", "HEAD~", "HEAD^"]
    assert offered(repo.top, "repoagent neighbors --at refs/tags/") == ["refs/tags/v1.0"]
    assert offered(repo.top, "repoagent neighbors --at x*") == []
    assert offered(repo.top, "repoagent neighbors a") == ["<file>"]
    assert offered(repo.top, "repoagent neighbors -- --") == ["<file>"]
    assert "anthropic/claude-haiku-5-5" in offered(repo.top, "repoagent models test anthropic/")
    assert "command:" in offered(repo.top, "repoagent edit --model ")
    assert offered(repo.top, "repoagent outline a --language pyt") == ["python"]


def test_names_after_dash_c_are_of_that_folder(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("odd name.py", "")
    assert offered(tmp_path, f"git -C {repo.top} repoagent neighbors ") == [
        "README.md",
        "a.txt",
        r"odd\ name.py",
        "src/",
    ]
    assert offered(tmp_path, f"repoagent -C {repo.top} neighbors 'o") == ["odd name.py"]
    assert offered(tmp_path, f"repoagent -C {repo.top} -C src neighbors ap") == ["app.py"]
    assert offered(tmp_path, f"repoagent -C {repo.top} split -o ") == ["src/"]
    assert offered(tmp_path, f"repoagent neighbors -C {repo.top} -C src ap") == ["app.py"]
    assert offered(tmp_path, f"repoagent -C {repo.top}/none neighbors ") == []


@pytest.mark.soak
def test_each_shell_gets_its_own_format(repo: GitRepo) -> None:
    repo.git("tag", "we$ird")
    assert offered(repo.top, "repoagent neighbors --at we") == ["we\\$ird"]
    assert offered(repo.top, 'repoagent neighbors --at "we') == ["we\\$ird"]
    assert offered(repo.top, "repoagent neighbors --at 'we") == ["we$ird"]
    assert offered(repo.top, "repoagent neighbors --at=we", "zsh") == ["plain", "we$ird", "tag"]
    assert offered(repo.top, "repoagent neighbors --at=we", "fish") == ["--at=we$ird\ttag"]
    assert offered(repo.top, "repoagent neighbors RE", "fish") == ["README.md"]
    repo.write("two\nlines", "")
    assert offered(repo.top, "repoagent neighbors two", "fish") == []  # no shell could tell it from two names


def test_files_with_a_memory_are_offered(repo: GitRepo) -> None:
    assert run(["memory", "note", "src/app.py", "of the first"], repo.top).returncode == 0
    assert offered(repo.top, "repoagent memory show s") == ["src/app.py"]
    assert offered(repo.top / "src", "repoagent memory show ") == ["app.py"]


@pytest.mark.parametrize(
    "line",
    [
        "repoagent neighbors --at ",
        pytest.param("repoagent memory show ", marks=pytest.mark.soak),
        "repoagent undo ",
    ],
)
def test_without_candidates_nothing_is_printed(tmp_path: Path, line: str) -> None:
    assert not {*offered(tmp_path, line)} - {"HEAD", "HEAD~", "HEAD^", "<file>"}
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_instruction_is_refused(tmp_path: Path) -> None:
    assert (
        run([], tmp_path, env={"_REPOAGENT_COMPLETE": "csh_complete", "COMP_WORDS": "repoagent "}).returncode
        == 2
    )
    script = run([], tmp_path, env={"_REPOAGENT_COMPLETE": "zsh_source"}).stdout
    assert script == run(["completion", "zsh"], tmp_path).stdout != b""


def test_every_command_s_files_revisions_and_models_are_completed() -> None:
    """By the word in the help, so that new commands are completed, too."""
    from repoagent.cli.app import cli

    result: set[str] = set()

    def walk(command: click.Command, ctx: click.Context) -> None:
        for param in command.params:
            words = {*re.findall(r"\b[A-Z]{2,}\b", param.metavar or "")}
            if words & {"FILE", "PATH", "DIR", "REV", "REF", "SPEC"} and not param._custom_shell_complete:
                assert finder_of(param, command.name or ""), (ctx.command_path, param.name, param.metavar)
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


def test_model_names_are_those_of_the_catalogue() -> None:
    from repoagent.llm.catalog import _data, aliases, names

    assert names() == {**aliases(), **dict.fromkeys(_data()["models"], "")}


@pytest.mark.soak
@pytest.mark.parametrize("line", ["repoagent ", "repoagent neighbors --at m"])
def test_it_is_nearly_as_quick_as_the_version(repo: GitRepo, line: str) -> None:
    def seconds(line: str) -> float:
        """CPU time, that of git too: other tests run at the same time."""
        request = {"_REPOAGENT_COMPLETE": "bash_complete", "COMP_WORDS": line} if line else {}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", MAIN, *([] if line else ["--version"])]
        subprocess.run(command, cwd=repo.top, env={**os.environ, **request}, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds(line)
    assert statistics.median(seconds(line) / seconds("") for _ in range(5)) < 1.5
