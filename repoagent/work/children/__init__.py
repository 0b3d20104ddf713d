"""Children of a run: each is a process of its own, with its own conversation, and no more than its parent has.

Read `tool` (the action), then `order` (what a child is told to be), `process` (started, listened to, ended), `adopting`
(what it leaves) and `reviewer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.work.children.adopting import adopt
    from repoagent.work.children.order import Order, read_order, write_order
    from repoagent.work.children.tool import Nursery, delegate_tools

_HOME = {
    "adopt": "adopting",
    "Nursery": "tool",
    "Order": "order",
    "delegate_tools": "tool",
    "read_order": "order",
    "write_order": "order",
}

__all__ = ["Nursery", "Order", "adopt", "delegate_tools", "read_order", "write_order"]

__getattr__ = door(__name__, _HOME)
