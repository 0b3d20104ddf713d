"""What a model asks of its plan, performed: a pure function, so that the plan can be made again from what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from repoagent.agent.actions import Action
from repoagent.agent.plan import changes, rules
from repoagent.agent.plan.document import Plan
from repoagent.agent.plan.lines import MARKS, SETTLED, Task, TaskState, canonical, split_title
from repoagent.errors import UsageError
from repoagent.llm.quoting import fence, printable

TEXT = (
    '<task add="TITLE" under="1">note</task> adds to the plan, which the user reads; <task n="1.2" state="done"/> '
    "changes it (open, active, done, blocked, dropped; title=, under=, after=, before=); <task/> shows it. For work of "
    "several steps."
)
SHOWN = 14  # tasks of an answer; of a longer plan what is open

_STATES: Mapping[str, TaskState] = {
    **{state: state for state in MARKS},
    "todo": "open", "pending": "open", "started": "active", "doing": "active", "in-progress": "active",
    "in_progress": "active", "completed": "done", "finished": "done", "cancelled": "dropped",
}  # fmt: skip
_ARGUMENTS = {"add", "n", "state", "title", "under", "after", "before"}


def performed(plan: Plan, action: Action) -> tuple[Plan, str]:
    """The plan after `action`, and a sentence that says what was done. Raises UsageError for what can't be."""
    args = {name: value.strip() for name, value in action.args.items()}
    if unknown := sorted(set(args) - _ARGUMENTS):
        raise UsageError(f"<task> knows no {unknown[0]}=: it knows {', '.join(sorted(_ARGUMENTS))}.")
    for name in {"n", "under", "before"} & set(args):
        args[name] = canonical(args[name])
        if args[name]:
            rules.known(plan, args[name])
    if "add" in args:
        return _add(plan, args, action.body)
    if args.get("n"):
        return _change(plan, args, action.body)
    if args or action.body.strip():
        raise UsageError(
            'say which task, as n="1.2" (id= only marks where a body ends), or add="Title" for a new one.'
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
        lines.append(f"({len(left) - settled} more open: <task/> shows all)")
    return "\n".join(lines)


def _line(task: Task, depth: int) -> str:
    after = f" (after {', '.join(task.after)})" if task.after else ""
    return printable(f"{'  ' * depth}[{MARKS[task.state]}] {task.id}. {task.title}{after}")


def _add(plan: Plan, args: Mapping[str, str], note: str) -> tuple[Plan, str]:
    if args.get("n"):
        raise UsageError('either add="Title" for a new task, or n="1.2" for one that is there.')
    title, after = _titled(args["add"])
    after = tuple(dict.fromkeys([*after, *_ids(args.get("after", ""))]))
    for id in after:
        rules.known(plan, id)
    under = args.get("under", "")
    if before := args.get("before", ""):
        under = rules.known(plan, before).under
    same = next((task for task in plan.open if (task.title, task.under) == (title, under)), None)
    if same:  # performed again after a kill, or asked for twice
        return changes.noted(plan, same.id, note), f"{same.id} is there already: {title}"
    state = _state(args.get("state", "open"))
    made, id = changes.added(plan, Task("", title, state, after, note, under), before=before)
    rules.refuse_circle(made, id)
    reopened: list[str] = []
    if state not in SETTLED:
        made, reopened = _reopened(made, under)
    return made, f"Added {id}: {title}{_said(reopened, 'open again')}"


def _change(plan: Plan, args: Mapping[str, str], note: str) -> tuple[Plan, str]:
    id = args["n"]
    old = task = rules.known(plan, id)
    if "title" in args:
        title, after = _titled(args["title"])
        task = replace(task, title=title, after=after or task.after)
    if "after" in args:
        task = replace(task, after=_ids(args["after"]))
    for other in set(task.after) - set(old.after):
        rules.known(plan, other)
    if "state" in args:
        task = replace(task, state=_state(args["state"]))
    if task.state == "done" and old.state != "done":
        rules.refuse_open_below(plan, id)
    made = changes.noted(changes.changed(plan, id, task), id, note)
    if {"under", "before"} & set(args):
        made = _moved(made, id, args)
    rules.refuse_circle(made, id)
    said = [f"{id} is {task.state}: {task.title}"]
    if old.state in SETTLED and task.state not in SETTLED:
        made, reopened = _reopened(made, rules.known(made, id).under)
        said.append(_said(reopened, "open again"))
    if task.state in {"active", "done"} and task.state != old.state:
        said.append(_said(rules.waiting_for(made, id), "to come before it, and not done"))
    return made, "".join(said)


def _moved(plan: Plan, id: str, args: Mapping[str, str]) -> Plan:
    before = args.get("before", "")
    under = rules.known(plan, before).under if before else args.get("under", "")
    if {under, before} & {id, *(task.id for task in rules.below(plan, id))}:
        raise UsageError(f"task {id} can't be moved to a place inside itself.")
    return changes.moved(plan, id, under=under, before=before)


def _reopened(plan: Plan, id: str) -> tuple[Plan, list[str]]:
    """The plan with the tasks from `id` up as active, where they were settled: something under them is open."""
    found: list[str] = []
    while id:
        task = rules.known(plan, id)
        if task.state in SETTLED:
            plan = changes.changed(plan, id, replace(task, state="active"))
            found.append(id)
        id = task.under
    return plan, found


def _titled(text: str) -> tuple[str, tuple[str, ...]]:
    title, after = split_title(changes.clean_title(text))
    if not title:
        raise UsageError("a task needs a title.")
    return title, after


def _state(text: str) -> TaskState:
    if text.lower() not in _STATES:
        raise UsageError(f'there is no state "{text}": it is one of {", ".join(MARKS)}.')
    return _STATES[text.lower()]


def _ids(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(canonical(id) for id in text.replace(",", " ").split()))


def _said(ids: list[str], what: str) -> str:
    return f" ({', '.join(ids)}: {what})" if ids else ""
