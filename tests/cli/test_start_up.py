"""The start-up imports almost nothing; the work of `edit` and `run` before the first request is little."""

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
HEAVY = {"anthropic", "asyncio", "git", "json", "rich", "subprocess", "tomlkit", "tree_sitter", "unidiff"}
if sys.version_info < (3, 11):
    HEAVY.remove("subprocess")  # click imports uuid, which does there
COMMANDS = "repoagent.cli.commands."


@pytest.mark.parametrize(
    ("words", "commands", "slow"),
    [
        ("--version", [], set()),
        ("--help", [], set()),
        ("edt", [], set()),
        ("", [], set()),
        ("config --help", [f"{COMMANDS}config"], {"json", "subprocess", "tomlkit"}),
        ("neighbors a.txt", [f"{COMMANDS}neighbors"], {"subprocess"}),
        ("hook status", [f"{COMMANDS}hook"], {"subprocess"}),
    ],
)
def test_only_what_is_used_is_imported(
    repo: GitRepo, words: str, commands: list[str], slow: set[str]
) -> None:
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {MAIN}"
    command = python(code, *words.split())
    done = subprocess.run(command, cwd=repo.top, capture_output=True, text=True, check=False)
    loaded = done.stderr.splitlines()[-1].split()  # the program may have written before
    assert "repoagent.cli.app" in loaded
    assert [name for name in loaded if name.startswith(COMMANDS)] == commands
    assert not HEAVY.intersection(loaded) - slow
    assert "repoagent.review.read_diff" not in loaded


def test_version_takes_less_than_one_and_a_half_bare_click_programs(tmp_path: Path) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(
        "import click\n@click.command()\n@click.version_option('1.0')\ndef bare(): 'Nothing.'\nbare()\n"
    )

    def seconds(*command: str) -> float:
        """CPU time: other tests run at the same time."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command, "--version"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    seconds("-c", MAIN)  # writes the byte code
    pairs = [(seconds("-c", MAIN), seconds(str(bare))) for _ in range(5)]
    assert statistics.median(ours / theirs for ours, theirs in pairs) < 1.5


# Prints the work up to the first request, and exits.
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
OF_ANSWERS = ("repoagent.patch.parse.answer", "repoagent.patch.locate.choose", "repoagent.patch.splice")


@pytest.mark.parametrize(
    ("words", "most_modules"),
    [("edit --yes a.py", 340), ("run --mode auto", 375)],  # 328 and 359 in November 2026
)
def test_little_work_before_the_first_request(repo: GitRepo, words: str, most_modules: int) -> None:
    repo.commit("start", **{"a.py": "x = 1\n"})
    env = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-0", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    program = python(TRACED, *words.split(), "set x to 2", "--model", "anthropic/claude-sonnet-5-5")
    ran = subprocess.run(program, cwd=repo.top, env=env, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    done = json.loads(ran.stdout.splitlines()[-1])
    processes = [event for event in done["events"] if " " in event]
    assert done["events"].index("anthropic-preload") < done["events"].index(processes[0])
    assert len([one for one in processes if one.startswith("git ")]) <= 19
    assert not {name for name in done["loaded"] if name.startswith(OF_ANSWERS)}
    assert len(done["loaded"]) <= most_modules
    assert not done["slow"]  # to use repoagent.dataclass
