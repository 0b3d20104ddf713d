"""What only a run needs of what a program says: the name of its conversation."""

from __future__ import annotations

from repoagent.errors import UsageError
from repoagent.repo import WorkTree, layout
from repoagent.work.home import home_of, new_name


def name_of(worktree: WorkTree, name: str | None, prompt: str) -> str:
    """The name of the run, a new one for None. Raises UsageError for one that no run may have, and where a new run has
    no prompt."""
    if name is not None:
        return home_of(layout(worktree), name).name
    if not prompt.strip():
        raise UsageError("the prompt is empty: say what to do")
    return new_name("run")
