"""A run for a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from repoagent.errors import UsageError
from repoagent.library.asking import ready
from repoagent.llm import Limits, Model
from repoagent.repo import WorkTree, layout
from repoagent.work import RunOutcome, RunRequest
from repoagent.work import run as run_task
from repoagent.work.home import home_of, new_name
from repoagent.work.silent import SilentTalk

if TYPE_CHECKING:
    from repoagent.config import Settings


def run(
    worktree: WorkTree,
    prompt: str,
    settings: Settings,
    *,
    model: str | Model | None,
    talk: SilentTalk,
    limits: Limits | None,
    wishes: Mapping[str, Any],
    settle: Callable[[], None],
) -> RunOutcome:
    """`wishes` are fields of the request; their name is None for a new run. Raises as `Repository.run`."""
    name = wishes["name"]
    if not prompt.strip() and name is None:
        raise UsageError("the prompt is empty: say what to do")
    name = new_name("run") if name is None else home_of(layout(worktree), name).name
    request = RunRequest(prompt.strip(), **{**wishes, "name": name})
    limits = limits or Limits(
        settings.whole("run.max_turns"),
        settings.whole_or_none("max_tokens"),
        settings.number_or_none("max_cost"),
        settings.number_or_none("max_cost_per_day"),
        settings.number_or_none("run.max_time"),
    )
    asked = ready(settings, model, talk.said, limits)
    settle()
    return run_task(worktree, request, settings, talk, asked)
