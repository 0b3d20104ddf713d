"""The start-up is fast because it imports almost nothing; the work of `edit` and `run` before the first request is little."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.screens import python
from tests.conftest import GitRepo

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
    done = subprocess.run(python(code, *arguments), capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())  # the program may have written before


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["edt"], []])
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
    pairs = [(seconds("-c", MAIN), seconds(str(bare))) for _ in range(5)]
    assert statistics.median(ours / theirs for ours, theirs in pairs) < 1.5


# The work of `edit` and `run` before the first request: little, nothing twice, and the SDK's import first.

# Prints the work up to the request, and exits.
TRACED = """
import dataclasses, json, sys, threading
events, start = [], threading.Thread.start
def started(thread):
    events.append(thread.name)
    start(thread)
threading.Thread.start = started
def heard(name, arguments):
    if name == "subprocess.Popen":
        events.append(" ".join(map(str, arguments[1])))
sys.addaudithook(heard)
from repoagent.llm.providers.anthropic import AnthropicModel
def complete(*arguments):
    loaded = [name for name in list(sys.modules) if name.startswith("repoagent.")]
    slow = [name for name in loaded if getattr(sys.modules[name], "dataclass", None) is dataclasses.dataclass]
    print(json.dumps({"events": events, "loaded": loaded, "slow": slow}))
    sys.stdout.flush()
    raise SystemExit(0)
AnthropicModel.complete = complete
from repoagent.cli import main
main()
"""
MODEL = ("--model", "anthropic/claude-sonnet-5-5")
COMMANDS = {
    "edit": ["edit", "--yes", *MODEL, "a.py", "set x to 2"],
    "run": ["run", "--mode", "auto", *MODEL, "set x to 2"],
}
# 328 and 359 in November 2026.
MOST_PROCESSES, MOST_MODULES = 19, {"edit": 340, "run": 375}
OF_ANSWERS = ("repoagent.patch.parse.answer", "repoagent.patch.locate.choose", "repoagent.patch.splice")


@pytest.mark.parametrize("command", COMMANDS)
def test_little_work_before_the_first_request(repo: GitRepo, command: str) -> None:
    repo.commit("start", **{"a.py": "x = 1\n"})
    env = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-0", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    program = python(TRACED, *COMMANDS[command])
    ran = subprocess.run(program, cwd=repo.top, env=env, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    done = json.loads(ran.stdout.splitlines()[-1])
    processes = [event for event in done["events"] if " " in event]
    assert done["events"].index("anthropic-preload") < done["events"].index(processes[0])
    assert len([one for one in processes if one.startswith("git ")]) <= MOST_PROCESSES
    assert not {name for name in done["loaded"] if name.startswith(OF_ANSWERS)}
    assert len(done["loaded"]) <= MOST_MODULES[command]
    assert not done["slow"]  # to use repoagent.dataclass
