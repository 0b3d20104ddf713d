"""A plan is a text, and its tasks are the check-list lines in it. Every text is a plan; nothing of it is rewritten
but the lines that a change is about.

    - [x] 1. Find out why the test fails
    - [~] 2. Fix the parser (after 1)
      What stands indented under a task is its note.
      - [ ] 2.1. Read a number with a sign

Ids stay with their line wherever it is moved to. A line without one, or with that of an earlier line, has the next
that is free below its parent.
"""

from __future__ import annotations

from functools import cached_property

from repoagent.agent.plan.lines import SETTLED, Item, Task
from repoagent.agent.plan.reading import items
from repoagent.dataclass import dataclass

EMPTY = """# Plan

<!-- [ ] open, [~] active, [x] done, [-] dropped, [!] blocked. Edit it as you like; a new line needs no number. -->

"""


@dataclass(frozen=True)
class Plan:
    """The text of a plan, whatever it is, and what of it are tasks, in its order."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def items(self) -> tuple[Item, ...]:
        return tuple(items(self.lines))

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(item.task for item in self.items)

    @cached_property
    def open(self) -> tuple[Task, ...]:
        """What is left to do. Who ticks off or drops a task means what stands under it too."""
        settled: set[str] = set()
        left = []
        for task in self.tasks:
            if task.state in SETTLED or task.under in settled:
                settled.add(task.id)
            else:
                left.append(task)
        return tuple(left)

    def item(self, id: str) -> Item | None:
        return next((item for item in self.items if item.task.id == id), None)
