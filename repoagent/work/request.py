"""What a person asks of a run, and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from repoagent.agent.approval import Mode
from repoagent.dataclass import dataclass
from repoagent.llm import Limits
from repoagent.repo import Options

if TYPE_CHECKING:
    from repoagent.config import Settings


@dataclass(frozen=True)
class RunRequest:
    """Everything that decides what one run does.

    prompt: the person's words; "" only where a run that was interrupted is gone on with.
    name: of the conversation and the run's folder.
    kind: "run" or "chat", or the kind of a child ("explore", …); parent: the run it is a child of, "" for none.
    mode: what may be done without a question.
    plan_only: look around and lay down a plan; nothing is changed.
    commit: how the commit is made; commit_per_edit: one for each edit, instead of one at the end.
    check: a command that has to succeed before the run may finish.
    tools: the names of the tools that may be used; None is all of them. instructions: of a kind, for the prompt.
    allow: command patterns that are allowed in this run, beside those of the configuration.
    network, confine: commands may reach the network; they run in a sandbox, where there is one.
    said: the options that the person has said, by name; `run.json` keeps them for when the run is gone on with.
    allow_sensitive: files that make git, or a server, run something may be changed without a question of their own.
    agent: "model", or a name of the entry-point group `repoagent.agents`.
    worktree, branch: where it works and on which branch, when a linked work tree was made for it; "" otherwise.
    """

    prompt: str
    name: str
    kind: str = "run"
    parent: str = ""
    mode: Mode = "ask"
    plan_only: bool = False
    commit: Options = field(default_factory=Options)
    commit_per_edit: bool = False
    check: str | None = None
    tools: frozenset[str] | None = None
    instructions: str = ""
    allow: tuple[str, ...] = ()
    network: bool = False
    confine: bool = True
    allow_sensitive: bool = False
    agent: str = "model"
    worktree: str = ""
    branch: str = ""
    said: Mapping[str, object] = field(default_factory=dict)


def limits_of(settings: Settings) -> Limits:
    """The limits of a run that the configuration sets."""
    return Limits(
        settings.whole("run.max_turns"),
        settings.whole_or_none("max_tokens"),
        settings.number_or_none("max_cost"),
        settings.number_or_none("max_cost_per_day"),
        settings.number_or_none("run.max_time"),
    )
