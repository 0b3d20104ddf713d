"""What a kind of agent is, and the three that are always there."""

from __future__ import annotations

from typing import Literal

from repoagent.agent.approval import Mode
from repoagent.dataclass import dataclass

# tools that only look
EXPLORE = frozenset({"read", "files", "search", "outline", "neighbors", "uses", "history", "recall"})

Source = Literal["built-in", "user", "repository"]


@dataclass(frozen=True)
class Budget:
    """What may be used; None is no limit. `cost` is in US dollars, `seconds` on the clock, `turns` calls of a model."""

    turns: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Kind:
    """A kind of agent. `tools`, `model` and `mode` are None where a child has what its parent has; the four tools of
    the loop itself (think, message, finish, reject) every agent has."""

    name: str
    description: str
    instructions: str = ""
    tools: frozenset[str] | None = None
    model: str | None = None
    limits: Budget = Budget()
    mode: Mode | None = None
    source: Source = "built-in"


BUILT_IN = {
    kind.name: kind
    for kind in (
        Kind(
            "explore",
            "answers a question; changes nothing",
            "Find out what you are asked, with the tools that look. Answer with what the one who asks has to know: "
            "paths, lines and names first, then what follows from them. Say what you did not find.",
            EXPLORE,
            mode="read-only",
        ),
        Kind(
            "edit",
            "makes one change",
            "Make the change that is described, no other. Look before you change. Answer with what you changed, how "
            "you know that it is right, and what is left to do.",
            EXPLORE | {"edit", "write", "run", "wait", "kill", "task", "skill"},
        ),
        Kind(
            "review",
            "reviews the change so far; changes nothing",
            tools=EXPLORE,
            mode="read-only",
        ),
    )
}
