"""Whole tasks: `run` and `chat`. The loop is given its tools, a home to live in, and a person to talk to.

Read request (what is asked), runner and at_work (how it goes), outset (how it begins), desk (what it has at hand).
In packages of their own:

ground/   the state of the repository that it stands on
tools/    with what it works
sending/  what the model is sent
landing/  how a change gets into the files, and into a commit
home/     a run's folder: whether it is alive, what it is told while it works, live and past runs
children/ other processes that do a part of it
changes/  what a run has changed, apart from what else is done to the files
skills/ kinds/ around/ plugins/   what a person, or a repository, adds to it
mcp/      this program as tools for other assistants
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.request import RunRequest
    from repoagent.work.runner import RunOutcome, run
    from repoagent.work.talk import Talk

_HOME = {"RunOutcome": "runner", "RunRequest": "request", "Talk": "talk", "run": "runner"}

__all__ = ["RunOutcome", "RunRequest", "Talk", "run"]

__getattr__ = door(__name__, _HOME)
