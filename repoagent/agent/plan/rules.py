"""What a plan may not come to. A person's edit is never refused; these are for what a model asks."""

from __future__ import annotations

from repoagent.agent.plan.document import Plan
from repoagent.agent.plan.lines import SETTLED, Task
from repoagent.errors import UsageError


def known(plan: Plan, id: str) -> Task:
    """The task `id`. Raises UsageError, which names those there are."""
    item = plan.item(id)
    if item is None:
        ids = ", ".join(task.id for task in plan.tasks[:40])
        raise UsageError(
            f"there is no task {id}: there are {ids}." if ids else f"there is no task {id}: there are none."
        )
    return item.task


def below(plan: Plan, id: str) -> list[Task]:
    """The tasks under `id`, at any depth, in their order."""
    inside, found = {id}, []
    for task in plan.tasks:
        if task.under in inside:
            inside.add(task.id)
            found.append(task)
    return found


def refuse_circle(plan: Plan, id: str) -> None:
    """Raise UsageError when the task `id` would have to wait for itself.

    A task waits for those it comes `after`, for those that the task above it comes after, and for what is under it.
    """
    tasks = {task.id: task for task in plan.tasks}
    under: dict[str, list[str]] = {}
    for task in tasks.values():
        under.setdefault(task.under, []).append(task.id)

    def waits_for(one: str) -> list[str]:
        found, at = list(under.get(one, ())), one
        while at in tasks:
            found += tasks[at].after
            at = tasks[at].under
        return found

    seen: set[str] = set()
    left = waits_for(id)
    while left:
        one = left.pop()
        if one == id:
            raise UsageError(f"task {id} would have to wait for itself: give it another after=, or none.")
        if one in tasks and one not in seen:
            seen.add(one)
            left += waits_for(one)


def refuse_open_below(plan: Plan, id: str) -> None:
    """Raise UsageError when something under the task `id` is not done yet."""
    inside = {task.id for task in below(plan, id)}
    left = [task.id for task in plan.open if task.id in inside]
    if left:
        raise UsageError(f"task {id} is not done while {', '.join(left)} is open: do that first, or drop it.")


def waiting_for(plan: Plan, id: str) -> list[str]:
    """The ids of what comes before the task `id`, or before one above it, and is not done yet."""
    tasks = {task.id: task for task in plan.tasks}
    found: list[str] = []
    at = id
    while at in tasks:
        found += [one for one in tasks[at].after if one in tasks and tasks[one].state not in SETTLED]
        at = tasks[at].under
    return list(dict.fromkeys(found))
