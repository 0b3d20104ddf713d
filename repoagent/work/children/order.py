"""What a child is started with: `child.json` in its home, written by its parent."""

from __future__ import annotations

from typing import Any

from repoagent.agent.approval import MODES, Mode
from repoagent.dataclass import dataclass
from repoagent.errors import Refused, UsageError
from repoagent.store import document
from repoagent.work.home import Home
from repoagent.work.kinds import Budget

VERSION = 1


@dataclass(frozen=True)
class Order:
    """One child: whose it is, what it is, what it is to do and with what. `instructions` are worded for the prompt."""

    parent: str
    kind: str
    prompt: str
    instructions: str
    tools: frozenset[str]
    mode: Mode
    budget: Budget
    allow: tuple[str, ...] = ()
    network: bool = False
    confine: bool = True


def write_order(home: Home, order: Order) -> None:
    """Keep it in the child's home, which is made."""
    budget = order.budget
    value = {
        "parent": order.parent,
        "kind": order.kind,
        "prompt": order.prompt,
        "instructions": order.instructions,
        "tools": sorted(order.tools),
        "mode": order.mode,
        "turns": budget.turns,
        "tokens": budget.tokens,
        "cost": budget.cost,
        "seconds": budget.seconds,
        "allow": list(order.allow),
        "network": order.network,
        "confine": order.confine,
    }
    document.write(home.folder / "child.json", value, version=VERSION)


def read_order(home: Home) -> Order:
    """The order of a child. Raises UsageError where there is none, Refused for one that is broken."""
    value = document.read(home.folder / "child.json", version=VERSION)
    if value is None:
        raise UsageError(f"{home.name} is no child of a run")
    try:
        return _order(value)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"the order of the child {home.name} is broken: {error}") from error


def _order(value: dict[str, Any]) -> Order:
    mode = next(mode for mode in MODES if mode == value["mode"])
    return Order(
        str(value["parent"]),
        str(value["kind"]),
        str(value["prompt"]),
        str(value["instructions"]),
        frozenset(map(str, value["tools"])),
        mode,
        Budget(value["turns"], value["tokens"], value["cost"], value["seconds"]),
        tuple(map(str, value["allow"])),
        bool(value["network"]),
        bool(value["confine"]),
    )
