"""The program of a subagent that has made two calls, asks, and waits. It imports no tests, to start quickly."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from repoagent.cli.commands.run_output import emit_event
from repoagent.git.worktree import layout_of, open_worktree
from repoagent.llm.model import Usage
from repoagent.tasks.run_context import read_spec
from repoagent.tasks.runs.control import live_run
from repoagent.tasks.runs.directory import RunDirectory, RunRecord

if __name__ == "__main__":
    run_dir = RunDirectory(layout_of(open_worktree(Path.cwd())), sys.argv[3])
    parent = read_spec(run_dir)[0].parent
    with live_run(run_dir, RunRecord("Where?", kind="explore", parent=parent)) as live:
        live.turn(turns=2, activity="", usage=Usage(1_000, 200), cost=0.25)
        emit_event("ask", {"id": 1, "of": "command", "what": "make"})
        time.sleep(60)
