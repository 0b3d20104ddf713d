"""The tool `task`: change and show the plan, by a pure function, so that replaying the actions rebuilds the plan.

Any edit of the user is accepted; those of a model are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from repoagent.agent.actions import Action
from repoagent.agent.plan import document
from repoagent.agent.plan.document import (
    MARKS,
    SETTLED,
    Plan,
    Task,
    TaskState,
    canonical,
    split_title,
    titled,
)
from repoagent.errors import UsageError
from repoagent.llm.model import fence, printable

TEXT = (
    '<task add="TITLE" under="1">note</task> adds to the plan, which the user reads; <task n="1.2" '
    'state="done"/> changes it (open, active, done, blocked, dropped; title=, under=, after=, before=); '
    "<task/> shows it. For work of several steps."
)
_MAX_TITLE = 300  # characters; longer text belongs in the note
_SHOWN = 14  # tasks in an answer; of a longer plan only open ones are shown
_ARGUMENTS = {"add", "n", "state", "title", "under", "after", "before"}
_STATES: Mapping[str, TaskState] = {
    **{state: state for state in MARKS},
    "todo": "open", "pending": "open", "started": "active", "doing": "active", "in-progress": "active",
    "in_progress": "active", "completed": "done", "finished": "done", "cancelled": "dropped",
}  # fmt: skip


def performed(plan: Plan, action: Action) -> tuple[Plan, str]:
    """The plan after `action`, and a sentence on what was done. Raises UsageError if the action is invalid."""
    args = {name: value.strip() for name, value in action.args.items()}
    if unknown := sorted(set(args) - _ARGUMENTS):
        raise UsageError(f"<task> has no argument {unknown[0]}=: it takes {', '.join(sorted(_ARGUMENTS))}.")
    for name in {"n", "under", "before"} & set(args):
        args[name] = canonical(args[name])
        if args[name]:
            _task(plan, args[name])
    if "add" in args:
        return _add(plan, args, action.body)
    if args.get("n"):
        return _change(plan, args, action.body)
    if args or action.body.strip():
        raise UsageError(
            'name the task with n="1.2" (id= only marks where a body ends), or use add="Title" for a new one.'
        )
    return plan, ""


def is_done(action: Action) -> bool:
    """Whether the action marks a task as done."""
    return _STATES.get(action.args.get("state", "").strip().lower()) == "done"


def answer(plan: Plan) -> str:
    """The whole plan with notes, as a result for the model."""
    return fence(printable(plan.text), "plan") if plan.tasks else "The plan is empty."


def short(plan: Plan, most: int = _SHOWN) -> str:
    """The tasks without notes, a line each; if there are many, only open ones and the number of the others."""
    tasks = shown = list(plan.tasks)
    if len(tasks) > most:
        needed = {task.id for task in plan.open[:most]}
        for task in reversed(tasks):
            if task.id in needed:
                needed.add(task.under)
        shown = [task for task in tasks if task.id in needed]
    depth = {"": -1}
    for task in tasks:
        depth[task.id] = depth[task.under] + 1
    lines = [printable(f"{'  ' * depth[task.id]}[{MARKS[task.state]}] {titled(task)}") for task in shown]
    omitted = [task for task in tasks if task not in shown]
    settled = sum(task not in plan.open for task in omitted)
    if settled:
        lines.append(f"({settled} more done or dropped)")
    if len(omitted) > settled:
        lines.append(f"({len(omitted) - settled} more open; <task/> shows all)")
    return "\n".join(lines)


def _add(plan: Plan, args: Mapping[str, str], note: str) -> tuple[Plan, str]:
    if args.get("n"):
        raise UsageError('use either add="Title" for a new task, or n="1.2" for an existing one.')
    title, after = _title(args["add"])
    after = tuple(dict.fromkeys([*after, *_ids(args.get("after", ""))]))
    for id in after:
        _task(plan, id)
    under, before = _destination(plan, args)
    for task in plan.open:
        if (task.title, task.under) == (title, under):  # performed again after a kill, or requested twice
            return document.noted(plan, task.id, note), f"{task.id} already exists: {title}"
    state = _state(args.get("state", "open"))
    plan, id = document.added(plan, Task("", title, state, after, note, under), before=before)
    _check_cycle(plan, id)
    reopened = ""
    if state not in SETTLED:
        plan, reopened = _reopen(plan, under)
    return plan, f"Added {id}: {title}{reopened}"


def _change(plan: Plan, args: Mapping[str, str], note: str) -> tuple[Plan, str]:
    id = args["n"]
    old = task = _task(plan, id)
    if "title" in args:
        title, after = _title(args["title"])
        task = replace(task, title=title, after=after or task.after)
    if "after" in args:
        task = replace(task, after=_ids(args["after"]))
    for dependency in set(task.after) - set(old.after):
        _task(plan, dependency)
    if "state" in args:
        task = replace(task, state=_state(args["state"]))
    inside = {subtask.id for subtask in plan.below(id)}
    if task.state == "done" != old.state and (unsettled := [t.id for t in plan.open if t.id in inside]):
        raise UsageError(
            f"task {id} cannot be done while {', '.join(unsettled)} is open; do that first, or drop it."
        )
    plan = document.noted(document.changed(plan, id, task), id, note)
    if {"under", "before"} & set(args):
        under, before = _destination(plan, args)
        if {under, before} & {id, *inside}:
            raise UsageError(f"cannot move task {id} below itself.")
        plan = document.moved(plan, id, under=under, before=before)
    _check_cycle(plan, id)
    reopened = required = ""
    if old.state in SETTLED and task.state not in SETTLED:
        plan, reopened = _reopen(plan, _task(plan, id).under)
    if task.state in {"active", "done"} and task.state != old.state:
        tasks = {planned.id: planned for planned in plan.tasks}
        ids = [name for above in _upwards(tasks, id) for name in above.after]
        missing = dict.fromkeys(name for name in ids if name in tasks and tasks[name].state not in SETTLED)
        if missing:
            required = f" ({', '.join(missing)}: required before it, and not done)"
    return plan, f"{id} is {task.state}: {task.title}{reopened}{required}"


def _destination(plan: Plan, args: Mapping[str, str]) -> tuple[str, str]:
    """The ids of the parent and of the next task according to `under` and `before`, "" for none."""
    before = args.get("before", "")
    return _task(plan, before).under if before else args.get("under", ""), before


def _upwards(tasks: Mapping[str, Task], id: str) -> Iterator[Task]:
    """The task `id` and those above it."""
    while id in tasks:
        yield tasks[id]
        id = tasks[id].under


def _reopen(plan: Plan, id: str) -> tuple[Plan, str]:
    """Make settled tasks from `id` upwards active, because a task under them is open; also return a note about them."""
    settled = [task for task in _upwards({t.id: t for t in plan.tasks}, id) if task.state in SETTLED]
    for task in settled:
        plan = document.changed(plan, task.id, replace(task, state="active"))
    return plan, f" ({', '.join(task.id for task in settled)}: open again)" if settled else ""


def _check_cycle(plan: Plan, id: str) -> None:
    """Raise UsageError if the task `id` depends on itself.

    A task depends on its `after`, on the `after` of the tasks above it, and on its subtasks.
    """
    tasks = {task.id: task for task in plan.tasks}
    seen: set[str] = set()
    queue = [id]
    while queue:
        current = queue.pop()
        if current in seen or current not in tasks:
            continue
        seen.add(current)
        required = [task.id for task in tasks.values() if task.under == current]
        required += [dependency for above in _upwards(tasks, current) for dependency in above.after]
        if id in required:
            raise UsageError(f"task {id} would depend on itself; use another after=, or none.")
        queue += required


def _task(plan: Plan, id: str) -> Task:
    """The task `id`. Raises UsageError, which lists the known ids."""
    try:
        return plan.item(id).task
    except KeyError:
        ids = ", ".join(task.id for task in plan.tasks[:40])
        message = f"no task {id}: the tasks are {ids}." if ids else f"no task {id}: the plan is empty."
        raise UsageError(message) from None


def _title(text: str) -> tuple[str, tuple[str, ...]]:
    title, after = split_title(" ".join(printable(text).split())[:_MAX_TITLE].rstrip())
    if not title:
        raise UsageError("a task needs a title.")
    return title, after


def _state(text: str) -> TaskState:
    if text.lower() not in _STATES:
        raise UsageError(f'unknown state "{text}": use one of {", ".join(MARKS)}.')
    return _STATES[text.lower()]


def _ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(canonical(id) for id in text.replace(",", " ").split()))
