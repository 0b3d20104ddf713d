"""The work of `edit` and `run` before the first request: little, nothing twice, and the SDK's import first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import GitRepo

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


def before_request(command: str, repo: GitRepo) -> Any:
    env = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-0", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    program = [sys.executable, "-c", TRACED, *COMMANDS[command]]
    done = subprocess.run(program, cwd=repo.top, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("command", COMMANDS)
def test_little_work_before_the_first_request(repo: GitRepo, command: str) -> None:
    repo.commit("start", **{"a.py": "x = 1\n"})
    done = before_request(command, repo)
    processes = [event for event in done["events"] if " " in event]
    assert done["events"].index("anthropic-preload") < done["events"].index(processes[0])
    assert len([one for one in processes if one.startswith("git ")]) <= MOST_PROCESSES
    assert not {name for name in done["loaded"] if name.startswith(OF_ANSWERS)}
    assert len(done["loaded"]) <= MOST_MODULES[command]
    assert not done["slow"]  # to use repoagent.dataclass
