"""The tool `task`, and the file of the plan: changed under a lock without losing a concurrent edit of the user.

The plan that the model knows is derived only from the conversation, so a run can resume on another machine. Any edit
of the user is accepted; those of a model are checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from repoagent.agent import plan as document
from repoagent.agent.actions import Action, Observation
from repoagent.agent.parse_reply import parse
from repoagent.agent.plan import EMPTY, MARKS, SETTLED, Plan, Task, TaskState, canonical, numbered
from repoagent.agent.state import Needs, Step, Tool, check_arguments, extra_turn
from repoagent.errors import Busy, Refused, RepoagentError, UsageError
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence, printable

NEWS = "plan"  # the kind of a turn with the user's edits; its meta has the whole text
_TEXT = (
    '<task add="TITLE" under="1">note</task> adds to the plan, which the user reads; <task n="1.2" '
    'state="done"/> changes it (open, active, done, blocked, dropped; title=); <task/> shows it. For work of '
    "several steps."
)
_MAX_TITLE = 300  # characters; longer text belongs in the note
_SHOWN = 14  # tasks in an answer; of a longer plan only open ones are shown
_MAX_BYTES = 1 << 20
_TRIES = 50
_NEWS_LINES = 24
_BOM = b"\xef\xbb\xbf"
_STATES: Mapping[str, TaskState] = {
    **{state: state for state in MARKS},
    "todo": "open", "pending": "open", "started": "active", "doing": "active", "in-progress": "active",
    "in_progress": "active", "completed": "done", "finished": "done", "cancelled": "dropped",
}  # fmt: skip


def task_tool(file: Path) -> Tool:
    """The tool `task`: changes the plan in `file` and returns the result. Raises Refused if a system call fails."""

    def perform(action: Action) -> Observation:
        sentence = ""

        def change(plan: Plan) -> Plan:
            nonlocal sentence
            new, sentence = performed(plan, action)
            return new

        try:
            plan = update_plan(file, change)
        except RepoagentError as error:
            if isinstance(error.__cause__, OSError):  # the model cannot correct it; a resumed run repeats it
                raise
            return Observation("task", str(error), ok=False, blocks=False)
        tasks = [{"id": task.id, "title": task.title, "state": task.state} for task in plan.tasks]
        once = fence(short(plan), "plan") if sentence and plan.tasks else ""
        return Observation("task", sentence or _answer(plan), data={"tasks": tasks}, once=once)

    def needs(action: Action) -> Needs:
        if not action.args and not action.body.strip():
            return "nothing"
        done = _STATES.get(action.args.get("state", "").strip().lower()) == "done"
        return "all" if done else "writes"

    return Tool("task", _TEXT, perform, needs=needs)


def performed(plan: Plan, action: Action) -> tuple[Plan, str]:
    """The plan after `action`, and a sentence on what was done ("" if it only shows the plan). A pure function, so that
    replaying the actions rebuilds the plan. Raises UsageError if the action is invalid."""
    check_arguments(action, ("add", "n", "state", "title", "under"))
    args = {name: value.strip() for name, value in action.args.items()}
    for name in {"n", "under"} & set(args):
        args[name] = canonical(args[name])
        if args[name] and not plan.path(args[name]):
            known = ", ".join(task.id for task in plan.tasks[:40])
            raise UsageError(
                f"no task {args[name]}: {f'the tasks are {known}' if known else 'the plan is empty'}."
            )
    id, under, note = args.get("n", ""), args.get("under", ""), action.body
    if "add" in args and id:
        raise UsageError('use either add="Title" for a new task, or n="1.2" for an existing one.')
    if "add" not in args and not id:
        if args or note.strip():
            raise UsageError(
                'name the task with n="1.2" (id= only marks where a body ends), or use add="Title" for a new one.'
            )
        return plan, ""
    old = plan.item(id).task if id else Task("", "", under=under)
    title = args.get("add", args.get("title", old.title))
    title = " ".join(printable(title).split())[:_MAX_TITLE].rstrip()
    if not title:
        raise UsageError("a task needs a title.")
    if args.get("state", old.state).lower() not in _STATES:
        raise UsageError(f'unknown state "{args["state"]}": use one of {", ".join(MARKS)}.')
    state = _STATES[args.get("state", old.state).lower()]
    if id:
        if under and under != old.under:
            raise UsageError("a task cannot be moved; drop it, and add it again.")
        inside = [task.id for task in plan.open if old in plan.path(task.id)[1:]]
        if state == "done" != old.state and inside:
            raise UsageError(
                f"task {id} cannot be done while {', '.join(inside)} is open; do that first, or drop it."
            )
        plan = document.noted(document.changed(plan, id, title, state), id, note)
        sentence = f"{id} is {state}: {title}"
    else:
        for task in plan.open:
            if (task.title, task.under) == (title, under):  # performed again after a kill, or requested twice
                return document.noted(plan, task.id, note), f"{task.id} already exists: {title}"
        plan, id = document.added(plan, Task("", title, state, note, under))
        sentence = f"Added {id}: {title}"
    if state not in SETTLED and ("add" in args or old.state in SETTLED):  # the tasks above it are open again
        reopened = [task for task in plan.path(id)[1:] if task.state in SETTLED]
        for task in reopened:
            plan = document.changed(plan, task.id, task.title, "active")
        sentence += f" ({', '.join(task.id for task in reopened)}: open again)" if reopened else ""
    return plan, sentence


def _answer(plan: Plan) -> str:
    """The whole plan with notes, as a result for the model."""
    return fence(printable(plan.text), "plan") if plan.tasks else "The plan is empty."


def short(plan: Plan, most: int = _SHOWN) -> str:
    """The tasks without notes, a line each; if there are many, only open ones and the number of the others."""
    tasks = shown = list(plan.tasks)
    if len(tasks) > most:
        needed = {above.id for task in plan.open[:most] for above in plan.path(task.id)}
        shown = [task for task in tasks if task.id in needed]
    lines = [
        printable(f"{'  ' * (len(plan.path(task.id)) - 1)}[{MARKS[task.state]}] {task.label}")
        for task in shown
    ]
    omitted = [task for task in tasks if task not in shown]
    settled = sum(task not in plan.open for task in omitted)
    if settled:
        lines.append(f"({settled} more done or dropped)")
    if len(omitted) > settled:
        lines.append(f"({len(omitted) - settled} more open; <task/> shows all)")
    return "\n".join(lines)


def read_plan(file: Path) -> Plan:
    """The plan in `file`; one without tasks if there is no file.

    Raises Refused if it is not a regular file, not UTF-8, or larger than 1 MiB.
    """
    return _decode(file, _bytes(file))


def update_plan(file: Path, change: Callable[[Plan], Plan] = numbered) -> Plan:
    """Apply `change` to the plan in `file`, add missing ids, save and return it.

    A concurrent edit of the user is not overwritten: `change` is applied to the new text. Raises what `read_plan` and
    `change` raise (without writing), and Busy if the file is locked or constantly written.
    """
    from repoagent.storage.locks import locked

    with locked(file.with_name(f"{file.name}.lock"), what="the plan"):
        late_edit: bytes | None = None
        for _ in range(_TRIES):
            before = _bytes(file)
            plan = _decode(file, before if late_edit is None else late_edit)
            new = numbered(change(plan))
            if new == plan and late_edit is None:
                return new
            replaced, late_edit = _replace(file, before, new)
            if replaced and late_edit is None:
                return new
    raise Busy(f"another program keeps writing {file}; try again")


def _replace(file: Path, before: bytes | None, plan: Plan) -> tuple[bool, bytes | None]:
    """Write the plan if the file still has the bytes `before`. Return whether it was written, and the content of the
    old file if the user edited it just before it was replaced."""
    from repoagent.storage.atomic import write_whole
    from repoagent.storage.folders import open_folder

    data = (_BOM if before and before.startswith(_BOM) else b"") + plan.text.encode()
    new, old = file.with_name(f"{file.name}.new"), file.with_name(f"{file.name}.old")
    # synced before the comparison, to keep the time between it and the replacement short
    write_whole(new, data, settled=False)
    with open_folder(file.parent) as parent:
        linked = False  # whether the old file has a second name, to read it after it was replaced
        if before is not None:
            with suppress(FileNotFoundError):
                os.unlink(old.name, dir_fd=parent)
            with suppress(OSError):  # a file system without links: such a late write is not noticed
                os.link(file.name, old.name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
                linked = True
        try:
            if _bytes(file) != before:
                os.unlink(new.name, dir_fd=parent)
                return False, None
            os.replace(new.name, file.name, src_dir_fd=parent, dst_dir_fd=parent)
            late_edit = _bytes(old) if linked else before
        finally:
            if linked:
                os.unlink(old.name, dir_fd=parent)
    return True, None if late_edit == before else late_edit


def _bytes(file: Path) -> bytes | None:
    from repoagent.storage.atomic import read_regular

    return read_regular(file, most=_MAX_BYTES)


def _decode(file: Path, data: bytes | None) -> Plan:
    if data is None:
        return Plan(EMPTY)
    try:
        return Plan(data.removeprefix(_BOM).decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"{file} is not UTF-8 (line {line}); save it as UTF-8 or move it away") from error


def plan_from(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Plan:
    """The plan according to the conversation: the successful `task` actions applied to the last text of the user.
    `tools` are the names of all tools of the run."""
    plan, names = Plan(EMPTY), frozenset(tools)
    for number, turn in enumerate(turns):
        if turn.role == "observation" and "plan" in turn.meta:
            plan = Plan(turn.meta["plan"])
        if turn.role != "assistant" or "<task" not in turn.text:
            continue
        results: list[Turn] = []
        for result in turns[number + 1 :]:
            if result.role != "observation" or "plan" in result.meta:
                break
            results.append(result)
        actions = parse(turn.text, names, nonce=nonce, was_cut="dropped" in turn.meta).actions
        for action, result in zip(actions, Step(turn, tuple(results)).performed, strict=False):
            if action.kind == "task" and result.meta.get("ok") != "no":
                plan = _apply(plan, tuple(action.args.items()), action.body)
    return plan


@lru_cache(maxsize=512)  # all actions of a conversation are replayed before each call
def _apply(plan: Plan, args: tuple[tuple[str, str], ...], note: str) -> Plan:
    try:
        return numbered(performed(plan, Action("task", dict(args), note))[0])
    except (
        UsageError
    ):  # of an earlier version, or on an edit of the user that was not yet in the conversation
        return plan


def plan_news(file: Path, turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Turn | None:
    """The user's edits of the plan since it last was in the conversation, as a turn to append; None without edits.

    Call it before each model call. Recreates a missing file from the conversation. Raises what `update_plan` raises.
    """
    known = plan_from(turns, tools, nonce)
    if known.tasks and not file.exists():
        update_plan(file, lambda plan: plan if plan.tasks else known)
    plan = update_plan(file)
    lines = _differences(known, plan)
    if not lines:
        return None
    if len(lines) > _NEWS_LINES:
        lines = [*lines[:_NEWS_LINES], f"({len(lines) - _NEWS_LINES} more; <task/> shows the plan)"]
    text = f"The user edited the plan:\n{fence(printable(chr(10).join(lines)), 'changes')}\n"
    text += f"The plan is now:\n{fence(short(plan), 'plan')}" if plan.tasks else _answer(plan)
    turn = extra_turn("observation", text, NEWS)
    return replace(turn, meta={**turn.meta, "plan": plan.text})


def _differences(before: Plan, after: Plan) -> list[str]:
    """The changes, one line per task."""
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in after.tasks}
    lines = [f"- {task.label}" for task in old.values() if task.id not in new]
    for id, task in new.items():
        note = " ".join(task.note.split())
        note = note if len(note) <= 300 else f"{note[:300]} …"
        if id not in old:
            lines.append(f"+ {task.label} ({task.state})" + (f": {note}" if note else ""))
            continue
        sentences = {
            "state": f"{old[id].state} -> {task.state}",
            "title": f"now called {task.title}",
            "under": f"now under {task.under}" if task.under else "now first",
            "note": f"note: {note}" if note else "its note was removed",
        }
        changes = [text for name, text in sentences.items() if getattr(old[id], name) != getattr(task, name)]
        if changes:
            lines.append(f"{id}: {', '.join(changes)}")
    if [id for id in old if id in new] != [id for id in new if id in old]:
        lines.append("the order: " + ", ".join(new))
    return lines
