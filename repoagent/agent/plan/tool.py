"""The tool `task`: change and show the plan, by a pure function, so that replaying the actions rebuilds the plan.

A change rewrites only the lines that it is about. An edit of the user is never refused, a model's is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from repoagent.agent.actions import Action
from repoagent.agent.plan.document import (
    MARKS,
    SETTLED,
    Item,
    Plan,
    Task,
    TaskState,
    canonical,
    item_line,
    last_numbers,
    next_id,
    quoted,
    split_title,
)
from repoagent.errors import UsageError
from repoagent.llm.model import fence, printable

_TITLE = 300  # characters; what is longer belongs into the note


def numbered(plan: Plan) -> Plan:
    """The plan with its ids written into every line that has none, so that they stay when lines are moved."""
    missing = [item for item in plan.items if not item.numbered]
    if not missing:
        return plan
    lines = list(plan.lines)
    for item in missing:
        lines[item.line] = _ended(item_line(item, item.task), lines[item.line])
    return Plan("\n".join(lines))


def added(plan: Plan, task: Task, *, before: str = "") -> tuple[Plan, str]:
    """The plan with `task` as the last one under `task.under`, or just before another; and the id that it has there.
    The ids that are named have to be there."""
    plan = numbered(plan)
    at, indent, bullet = _position(plan, task.under, before)
    under = _item(plan, before).task.under if before else task.under
    task = replace(task, id=next_id(last_numbers(other.id for other in plan.tasks), under), under=under)
    item = Item(task, at, at, at, indent, bullet, True)
    return _with(plan, at, [item_line(item, task), *_note_lines(task.note, item.inner)]), task.id


def changed(plan: Plan, id: str, task: Task) -> Plan:
    """The plan with the state, title and dependencies of `task` in the place of those of the task `id`."""
    plan = numbered(plan)
    item = _item(plan, id)
    lines = list(plan.lines)
    new = replace(item.task, title=task.title, state=task.state, after=task.after)
    if new != item.task:
        lines[item.line] = _ended(item_line(item, new), lines[item.line])
    return Plan("\n".join(lines))


def noted(plan: Plan, id: str, note: str) -> Plan:
    """The plan with `note` added to that of the task `id`, unless it says so already."""
    plan = numbered(plan)
    item = _item(plan, id)
    note = clean_note(note)
    if not note or f"\n{note}\n" in f"\n{item.task.note}\n":
        return plan
    return _with(plan, item.note_end, _note_lines(note, item.inner))


def moved(plan: Plan, id: str, *, under: str, before: str = "") -> Plan:
    """The plan with the task `id`, and all that belongs to it, as the last one under `under`, or just before another.
    Neither may be inside it."""
    plan = numbered(plan)
    item = _item(plan, id)
    block = plan.lines[item.line : item.end]
    left = Plan("\n".join([*plan.lines[: item.line], *plan.lines[item.end :]]))
    at, indent, _ = _position(left, under, before)
    own = len(item.indent)
    fits = [line.strip() != "" and line.startswith(item.indent) for line in block]
    return _with(
        left, at, [indent + line[own:] if fit else line for line, fit in zip(block, fits, strict=True)]
    )


def clean_title(text: str) -> str:
    """A title as it may stand in a line."""
    return " ".join(printable(text).split())[:_TITLE].rstrip()


def clean_note(text: str) -> str:
    """A note as it is kept: no control characters, no blank lines around it."""
    lines = [line.rstrip() for line in printable(text.replace("\r\n", "\n")).split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join(lines)


def _position(plan: Plan, under: str, before: str) -> tuple[int, str, str]:
    """The line where a task is put, its indentation and bullet."""
    if before:
        item = _item(plan, before)
        return item.line, item.indent, item.bullet
    siblings = [item for item in plan.items if item.task.under == under]
    if siblings:
        last = siblings[-1]
        return last.end, last.indent, last.bullet if len(last.bullet) == 1 else "-"
    if under:
        item = _item(plan, under)
        return item.end, item.inner, "-"
    return len(plan.lines), "", "-"


def _with(plan: Plan, at: int, new: Sequence[str]) -> Plan:
    lines = list(plan.lines)
    if at == len(lines) and not lines[-1]:  # before the end of the file, not after it
        at -= 1
    if lines[0].endswith("\r"):
        new = [f"{line.rstrip()}\r" for line in new]
    lines[at:at] = new
    if at + len(new) == len(lines):
        lines.append("")
    return Plan("\n".join(lines))


def _item(plan: Plan, id: str) -> Item:
    item = plan.item(id)
    if item is None:
        raise KeyError(id)
    return item


def _note_lines(note: str, inner: str) -> list[str]:
    note = clean_note(note)
    return [inner + quoted(line) if line else "" for line in note.split("\n")] if note else []


def _ended(line: str, before: str) -> str:
    return line + "\r" * before.endswith("\r")


def known(plan: Plan, id: str) -> Task:
    """The task `id`. Raises UsageError, which names those there are."""
    item = plan.item(id)
    if item is None:
        ids = ", ".join(task.id for task in plan.tasks[:40])
        raise UsageError(
            f"no task {id}: the tasks are {ids}." if ids else f"no task {id}: the plan is empty."
        )
    return item.task


def below(plan: Plan, id: str) -> list[Task]:
    """The tasks under `id`, at any depth, in their order."""
    inside, descendants = {id}, []
    for task in plan.tasks:
        if task.under in inside:
            inside.add(task.id)
            descendants.append(task)
    return descendants


def refuse_circle(plan: Plan, id: str) -> None:
    """Raise UsageError when the task `id` would have to wait for itself.

    A task waits for those it comes `after`, for those that the task above it comes after, and for what is under it.
    """
    tasks = {task.id: task for task in plan.tasks}
    under: dict[str, list[str]] = {}
    for task in tasks.values():
        under.setdefault(task.under, []).append(task.id)

    def waits_for(other: str) -> list[str]:
        before, at = list(under.get(other, ())), other
        while at in tasks:
            before += tasks[at].after
            at = tasks[at].under
        return before

    seen: set[str] = set()
    left = waits_for(id)
    while left:
        other = left.pop()
        if other == id:
            raise UsageError(f"task {id} would depend on itself; use another after=, or none.")
        if other in tasks and other not in seen:
            seen.add(other)
            left += waits_for(other)


def refuse_open_below(plan: Plan, id: str) -> None:
    """Raise UsageError when something under the task `id` is not done yet."""
    inside = {task.id for task in below(plan, id)}
    left = [task.id for task in plan.open if task.id in inside]
    if left:
        raise UsageError(
            f"task {id} cannot be done while {', '.join(left)} is open; do that first, or drop it."
        )


def waiting_for(plan: Plan, id: str) -> list[str]:
    """The ids of what comes before the task `id`, or before one above it, and is not done yet."""
    tasks = {task.id: task for task in plan.tasks}
    ids: list[str] = []
    at = id
    while at in tasks:
        ids += [other for other in tasks[at].after if other in tasks and tasks[other].state not in SETTLED]
        at = tasks[at].under
    return list(dict.fromkeys(ids))


TEXT = (
    '<task add="TITLE" under="1">note</task> adds to the plan, which the user reads; <task n="1.2" '
    'state="done"/> changes it (open, active, done, blocked, dropped; title=, under=, after=, before=); '
    "<task/> shows it. For work of several steps."
)
SHOWN = 14  # tasks of an answer; of a longer plan what is open

_STATES: Mapping[str, TaskState] = {
    **{state: state for state in MARKS},
    "todo": "open", "pending": "open", "started": "active", "doing": "active", "in-progress": "active",
    "in_progress": "active", "completed": "done", "finished": "done", "cancelled": "dropped",
}  # fmt: skip
_ARGUMENTS = {"add", "n", "state", "title", "under", "after", "before"}


def performed(plan: Plan, action: Action) -> tuple[Plan, str]:
    """The plan after `action`, and a sentence on what was done. Raises UsageError if the action is invalid."""
    args = {name: value.strip() for name, value in action.args.items()}
    if unknown := sorted(set(args) - _ARGUMENTS):
        raise UsageError(f"<task> has no argument {unknown[0]}=: it takes {', '.join(sorted(_ARGUMENTS))}.")
    for name in {"n", "under", "before"} & set(args):
        args[name] = canonical(args[name])
        if args[name]:
            known(plan, args[name])
    if "add" in args:
        return _add(plan, args, action.body)
    if args.get("n"):
        return _change(plan, args, action.body)
    if args or action.body.strip():
        raise UsageError(
            'name the task with n="1.2" (id= only marks where a body ends), or use add="Title" for a new one.'
        )
    return plan, ""


def answer(plan: Plan) -> str:
    """The whole plan, with the notes, for a model that asks for it."""
    return fence(printable(plan.text), "plan") if plan.tasks else "The plan is empty."


def is_done(action: Action) -> bool:
    """Whether the action says that a task is done."""
    return _STATES.get(action.args.get("state", "").strip().lower()) == "done"


def short(plan: Plan, most: int = SHOWN) -> str:
    """The tasks without their notes, a line each; of many the open ones, and how many others there are."""
    tasks = list(plan.tasks)
    depth = {"": -1}
    for task in tasks:
        depth[task.id] = depth[task.under] + 1
    shown = tasks
    if len(tasks) > most:
        needed = {task.id for task in plan.open[:most]}
        for task in reversed(tasks):
            needed |= {task.under} if task.id in needed else set()
        shown = [task for task in tasks if task.id in needed]
    lines = [_line(task, depth[task.id]) for task in shown]
    left = [task for task in tasks if task not in shown]
    settled = sum(task not in plan.open for task in left)
    if settled:
        lines.append(f"({settled} more done or dropped)")
    if len(left) > settled:
        lines.append(f"({len(left) - settled} more open; <task/> shows all)")
    return "\n".join(lines)


def _line(task: Task, depth: int) -> str:
    after = f" (after {', '.join(task.after)})" if task.after else ""
    return printable(f"{'  ' * depth}[{MARKS[task.state]}] {task.id}. {task.title}{after}")


def _add(plan: Plan, args: Mapping[str, str], note: str) -> tuple[Plan, str]:
    if args.get("n"):
        raise UsageError('use either add="Title" for a new task, or n="1.2" for an existing one.')
    title, after = _titled(args["add"])
    after = tuple(dict.fromkeys([*after, *_ids(args.get("after", ""))]))
    for id in after:
        known(plan, id)
    under = args.get("under", "")
    if before := args.get("before", ""):
        under = known(plan, before).under
    same = next((task for task in plan.open if (task.title, task.under) == (title, under)), None)
    if same:  # performed again after a kill, or asked for twice
        return noted(plan, same.id, note), f"{same.id} already exists: {title}"
    state = _state(args.get("state", "open"))
    made, id = added(plan, Task("", title, state, after, note, under), before=before)
    refuse_circle(made, id)
    reopened: list[str] = []
    if state not in SETTLED:
        made, reopened = _reopened(made, under)
    return made, f"Added {id}: {title}{_listed(reopened, 'open again')}"


def _change(plan: Plan, args: Mapping[str, str], note: str) -> tuple[Plan, str]:
    id = args["n"]
    old = task = known(plan, id)
    if "title" in args:
        title, after = _titled(args["title"])
        task = replace(task, title=title, after=after or task.after)
    if "after" in args:
        task = replace(task, after=_ids(args["after"]))
    for other in set(task.after) - set(old.after):
        known(plan, other)
    if "state" in args:
        task = replace(task, state=_state(args["state"]))
    if task.state == "done" and old.state != "done":
        refuse_open_below(plan, id)
    made = noted(changed(plan, id, task), id, note)
    if {"under", "before"} & set(args):
        made = _moved(made, id, args)
    refuse_circle(made, id)
    sentences = [f"{id} is {task.state}: {task.title}"]
    if old.state in SETTLED and task.state not in SETTLED:
        made, reopened = _reopened(made, known(made, id).under)
        sentences.append(_listed(reopened, "open again"))
    if task.state in {"active", "done"} and task.state != old.state:
        sentences.append(_listed(waiting_for(made, id), "required before it, and not done"))
    return made, "".join(sentences)


def _moved(plan: Plan, id: str, args: Mapping[str, str]) -> Plan:
    before = args.get("before", "")
    under = known(plan, before).under if before else args.get("under", "")
    if {under, before} & {id, *(task.id for task in below(plan, id))}:
        raise UsageError(f"cannot move task {id} below itself.")
    return moved(plan, id, under=under, before=before)


def _reopened(plan: Plan, id: str) -> tuple[Plan, list[str]]:
    """The plan with the tasks from `id` up as active, where they were settled: something under them is open."""
    ids: list[str] = []
    while id:
        task = known(plan, id)
        if task.state in SETTLED:
            plan = changed(plan, id, replace(task, state="active"))
            ids.append(id)
        id = task.under
    return plan, ids


def _titled(text: str) -> tuple[str, tuple[str, ...]]:
    title, after = split_title(clean_title(text))
    if not title:
        raise UsageError("a task needs a title.")
    return title, after


def _state(text: str) -> TaskState:
    if text.lower() not in _STATES:
        raise UsageError(f'unknown state "{text}": use one of {", ".join(MARKS)}.')
    return _STATES[text.lower()]


def _ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(canonical(id) for id in text.replace(",", " ").split()))


def _listed(ids: list[str], what: str) -> str:
    return f" ({', '.join(ids)}: {what})" if ids else ""
