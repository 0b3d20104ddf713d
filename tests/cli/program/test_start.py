"""The start-up is fast because it imports almost nothing."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

MAIN = "import sys; sys.argv[0] = 'repoagent'; from repoagent.cli import main; main()"
HEAVY = {"anthropic", "asyncio", "git", "rich", "subprocess", "tomlkit", "tree_sitter", "unidiff"}
if sys.version_info < (3, 11):
    HEAVY.remove("subprocess")  # click imports uuid, which does there
BARE = """\
import click

@click.command()
@click.version_option("1.0", prog_name="bare")
def bare():
    "Nothing."

bare()
"""


def modules(*arguments: str) -> set[str]:
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    return set(done.stderr.splitlines()[-1].split())  # the program may have written before


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-h"], ["edt"], []])
def test_version_and_help_import_no_command(arguments: list[str]) -> None:
    loaded = modules(*arguments)
    assert "repoagent.cli.app" in loaded
    assert not loaded & HEAVY
    assert not [name for name in loaded if name.startswith("repoagent.cli.commands.")]


def test_a_command_imports_itself_only() -> None:
    loaded = modules("config", "--help")
    assert [name for name in loaded if name.startswith("repoagent.cli.commands.")] == [
        "repoagent.cli.commands.config"
    ]
    assert not loaded & (HEAVY - {"subprocess", "tomlkit"})


def test_version_takes_less_than_one_and_a_half_bare_click_programs(tmp_path: Path) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(BARE)

    def seconds(*command: str) -> float:
        """CPU time: other tests run at the same time."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command, "--version"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds("-c", MAIN)  # writes the byte code
    pairs = [(seconds("-c", MAIN), seconds(str(bare))) for _ in range(9)]
    assert statistics.median(ours / theirs for ours, theirs in pairs) < 1.5
