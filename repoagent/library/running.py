"""What only a run needs of what a program says: the name of its conversation, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.errors import UsageError
from repoagent.llm import Limits
from repoagent.repo import WorkTree, layout
from repoagent.work.home import home_of, new_name

if TYPE_CHECKING:
    from repoagent.config import Settings


def name_of(worktree: WorkTree, name: str | None, prompt: str) -> str:
    """The name of the run, a new one for None. Raises UsageError for one that no run may have, and where a new run has
    no prompt."""
    if name is not None:
        return home_of(layout(worktree), name).name
    if not prompt.strip():
        raise UsageError("the prompt is empty: say what to do")
    return new_name("run")


def limits_of(settings: Settings) -> Limits:
    """The limits of a run that the configuration sets."""
    return Limits(
        settings.whole("run.max_turns"),
        settings.whole_or_none("max_tokens"),
        settings.number_or_none("max_cost"),
        settings.number_or_none("max_cost_per_day"),
        settings.number_or_none("run.max_time"),
    )
