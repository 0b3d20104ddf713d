"""What a child gets: never more than its parent has, in anything."""

from __future__ import annotations

from collections.abc import Set
from typing import TypeVar

from repoagent.agent.approval import Mode
from repoagent.dataclass import dataclass
from repoagent.work.kinds.kind import Budget, Kind

# each allows what the one before it does
WIDENING: tuple[Mode, ...] = ("read-only", "ask", "auto-edit", "auto")

N = TypeVar("N", int, float)


@dataclass(frozen=True)
class Child:
    """What a child is started with. `model` is None for its parent's."""

    tools: frozenset[str]
    mode: Mode
    budget: Budget
    model: str | None = None


def narrowed(kind: Kind, tools: Set[str], mode: Mode, left: Budget) -> Child:
    """What a child of `kind` gets of a parent that has `tools`, works in `mode`, and may still use what is `left`."""
    own = kind.tools
    return Child(
        frozenset(tools) if own is None else own & frozenset(tools),
        narrower(mode, kind.mode),
        Budget(
            _least(left.turns, kind.limits.turns),
            _least(left.tokens, kind.limits.tokens),
            _least(left.cost, kind.limits.cost),
            _least(left.seconds, kind.limits.seconds),
        ),
        kind.model,
    )


def narrower(one: Mode, other: Mode | None) -> Mode:
    """The mode of the two that allows less."""
    return one if other is None else min(one, other, key=WIDENING.index)


def _least(left: N | None, limit: N | None) -> N | None:
    """The lower of two limits; what is left is never less than nothing."""
    given = [max(value, value * 0) for value in (left, limit) if value is not None]
    return min(given) if given else None
