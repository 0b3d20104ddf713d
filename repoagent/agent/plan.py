"""The plan of a run: a check list in `plan.md`, which the model changes with the tool `task`, and the user by hand.

    - [x] 1. Find out why the test fails
    - [~] 2. Fix the parser
      Indented text below a task is its note.

Any text is a plan; a change rewrites only the lines it affects. A line without an id, or with the id of an earlier
line, gets the next number. The plan that the model knows is derived only from the conversation, so a run can resume on
another machine. Every edit by the user is accepted, even a concurrent one; the model's edits are checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from repoagent.agent.actions import Action, Observation
from repoagent.agent.context_window.shorten_text import shorten
from repoagent.agent.parse_reply import parse_reply
from repoagent.agent.state import Needs, Step, Tool, check_arguments, extra_turn
from repoagent.dataclass import dataclass
from repoagent.errors import Busy, Refused, RepoagentError, UsageError
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence, printable

TaskState = Literal["open", "active", "done", "dropped", "blocked"]

MARKS: Mapping[TaskState, str] = {"open": " ", "active": "~", "done": "x", "dropped": "-", "blocked": "!"}
_STATES: Mapping[str, TaskState] = {  # of a mark, or in an action
    **{mark: state for state, mark in MARKS.items()}, "": "open", "X": "done", "/": "active", ">": "active",
    **{state: state for state in MARKS},
    "todo": "open", "pending": "open", "started": "active", "doing": "active", "in-progress": "active",
    "in_progress": "active", "completed": "done", "finished": "done", "cancelled": "dropped",
}  # fmt: skip
_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?P<bullet>[-*+]|[0-9]{1,9}[.)])[ \t]+\[(?P<mark>[ xX~!/>-]?)\][ \t]+(?P<rest>\S.*?)\s*"
)
_ID = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){0,60})[.:](?:\s+|\Z)")
_HIGHEST = 10**8  # ids above it do not count for the next number
EMPTY = "# Plan\n\n<!-- [ ] open, [~] active, [x] done, [-] dropped, [!] blocked. Edit freely; a new line needs no "
EMPTY += "number. -->\n\n"

NEWS = "plan"  # the kind of a turn with the user's edits; its meta has the whole text
_TEXT = (
    '<task add="TITLE">note</task> adds to the plan, which the user reads; <task n="2" state="done"/> changes it '
    "(open, active, done, blocked, dropped; title=); <task/> shows it. For work in several steps."
)
_MAX_TITLE = 300  # characters; longer text belongs in the note
_SHOWN = 14  # tasks in an answer; of a longer plan only open ones are shown
_MAX_BYTES = 1 << 20
_TRIES = 50
_NEWS = 8192  # bytes of the plan in a turn about the user's edits


class Task(NamedTuple):
    id: str
    title: str
    state: TaskState = "open"
    note: str = ""

    @property
    def label(self) -> str:
        """The id and title, as written in the plan."""
        return f"{self.id}. {self.title}".rstrip()


class _Item(NamedTuple):
    """A task with its line and the end of its note (from 0, exclusive). numbered: whether the line contains its id."""

    task: Task
    line: int
    end: int
    indent: str
    bullet: str
    numbered: bool

    @property
    def inner(self) -> str:
        """The indentation of its note."""
        return self.indent + " " * (len(self.bullet) + 1)

    def text(self, task: Task) -> str:
        return f"{self.indent}{self.bullet} [{MARKS[task.state]}] {task.label}"


@dataclass(frozen=True)
class Plan:
    """The text of a plan, and its tasks in order."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def highest(self) -> int:
        """The highest number in use as an id, 0 for none."""
        ids = [_ID.match(match["rest"]) for line in self.lines if (match := _ITEM.fullmatch(line))]
        numbers = [int(id[1].partition(".")[0]) for id in ids if id]
        return max((number for number in numbers if number < _HIGHEST), default=0)

    @cached_property
    def items(self) -> list[_Item]:
        used: set[str] = set()
        items: list[_Item] = []
        last = self.highest
        for number, line in enumerate(self.lines):
            if match := _ITEM.fullmatch(line):
                own_id = _ID.match(match["rest"])
                numbered = own_id is not None and own_id[1] not in used
                last += not numbered
                id = own_id[1] if own_id and numbered else str(last)
                used.add(id)
                task = Task(id, _ID.sub("", match["rest"], count=1), _STATES[match["mark"]])
                items.append(_Item(task, number, number + 1, match["indent"], match["bullet"], numbered))
            elif items and line.strip():
                indent = line[: len(line) - len(line.lstrip(" \t"))]
                if len(indent.expandtabs(4)) > len(items[-1].indent.expandtabs(4)):
                    items[-1] = items[-1]._replace(end=number + 1)
        for number, item in enumerate(items):
            below = [line.rstrip() for line in self.lines[item.line + 1 : item.end]]
            note = [
                line.removeprefix(item.inner).lstrip(" \t" * (not line.startswith(item.inner)))
                for line in below
            ]
            items[number] = item._replace(task=item.task._replace(note="\n".join(note).strip("\n")))
        return items

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(item.task for item in self.items)

    @property
    def open(self) -> tuple[Task, ...]:
        """The tasks that are neither done nor dropped."""
        return tuple(task for task in self.tasks if task.state not in {"done", "dropped"})


def with_ids(plan: Plan) -> Plan:
    """Add ids to the lines that have none, so that ids stay the same when lines are moved."""
    lines = list(plan.lines)
    for item in plan.items:
        if not item.numbered:
            lines[item.line] = item.text(item.task)
    return Plan("\n".join(lines))


def _insert(plan: Plan, at: int, new: Sequence[str]) -> Plan:
    lines = list(plan.lines)
    if at == len(lines) and not lines[-1]:  # before the newline at the end of the file
        at -= 1
    lines[at:at] = new
    if at + len(new) == len(lines):
        lines.append("")
    return Plan("\n".join(lines))


def _with_note(plan: Plan, item: _Item, text: str) -> Plan:
    """Append `text` to the note of `item`, unless that contains it. Its lines that look like tasks get a backslash."""
    lines = [line.rstrip() for line in printable(text.replace("\r\n", "\n")).split("\n")]
    lines = [re.sub(r"^[ \t]*", r"\g<0>\\", line) if _ITEM.fullmatch(line) else line for line in lines]
    note = "\n".join(lines).strip("\n")
    if not note or f"\n{note}\n" in f"\n{item.task.note}\n":
        return plan
    return _insert(plan, item.end, [f"{item.inner}{line}".rstrip() for line in note.split("\n")])


def change_plan(plan: Plan, action: Action) -> tuple[Plan, str]:
    """The plan after `action`, and a sentence on what was done ("" if the action only shows the plan). A pure function,
    so that replaying the actions rebuilds the plan. Raises UsageError if the action is invalid."""
    check_arguments(action, ("add", "n", "state", "title"))
    args = {name: value.strip() for name, value in action.args.items()}
    id, note = args.get("n", "").rstrip(".:"), action.body
    if "add" in args and id:
        raise UsageError('use either add="Title" for a new task, or n="2" for an existing one.')
    if "add" not in args and not id:
        if args or note.strip():
            hint = '(id= only marks where a body ends), or use add="Title" for a new one.'
            raise UsageError(f'name the task with n="2" {hint}')
        return plan, ""
    plan = with_ids(plan)
    item = next((item for item in plan.items if item.task.id == id), None)
    if id and item is None:
        known = ", ".join(task.id for task in plan.tasks[:40])
        raise UsageError(f"no task {id}: {f'the tasks are {known}' if known else 'the plan is empty'}.")
    old = item.task if item else Task("", "")
    title = " ".join(printable(args.get("add", args.get("title", old.title))).split())[:_MAX_TITLE].rstrip()
    if not title:
        raise UsageError("a task needs a title.")
    state = _STATES.get(args.get("state", old.state).lower())
    if not state or not args.get("state", "open"):
        raise UsageError(f'unknown state "{args["state"]}": use one of {", ".join(MARKS)}.')
    if item is not None:
        changed = old._replace(title=title, state=state)
        if changed != old:
            before, after = plan.lines[: item.line], plan.lines[item.line + 1 :]
            plan = Plan("\n".join([*before, item.text(changed), *after]))
        return _with_note(plan, item, note), f"{id} is {state}: {title}"
    for item in plan.items:
        # performed again after a kill, or requested twice
        if item.task in plan.open and item.task.title == title:
            return _with_note(plan, item, note), f"{item.task.id} already exists: {title}"
    at = plan.items[-1].end if plan.items else len(plan.lines)
    bullet = plan.items[-1].bullet if plan.items and len(plan.items[-1].bullet) == 1 else "-"
    task = Task(str(plan.highest + 1), title, state)
    plan = _insert(plan, at, [f"{bullet} [{MARKS[state]}] {task.label}"])
    return _with_note(plan, plan.items[-1], note), f"Added {task.id}: {title}"


def task_tool(file: Path) -> Tool:
    """The tool `task`: changes the plan in `file` and returns the result. Raises Refused if a system call fails."""

    def perform(action: Action) -> Observation:
        sentence = ""

        def change(plan: Plan) -> Plan:
            nonlocal sentence
            new, sentence = change_plan(plan, action)
            return new

        try:
            plan = update_plan(file, change)
        except RepoagentError as error:
            if isinstance(error.__cause__, OSError):  # the model cannot correct it; a resumed run repeats it
                raise
            return Observation("task", str(error), ok=False, blocks=False)
        tasks = [{"id": task.id, "title": task.title, "state": task.state} for task in plan.tasks]
        once = fence(shorten_plan(plan), "plan") if sentence and plan.tasks else ""
        return Observation("task", sentence or _whole(plan), data={"tasks": tasks}, once=once)

    def needs(action: Action) -> Needs:
        if not action.args and not action.body.strip():
            return "nothing"
        done = _STATES.get(action.args.get("state", "").strip().lower()) == "done"
        return "all" if done else "writes"

    return Tool("task", _TEXT, perform, needs=needs)


def _whole(plan: Plan) -> str:
    """The whole plan with notes, as a result for the model."""
    return fence(printable(plan.text), "plan") if plan.tasks else "The plan is empty."


def shorten_plan(plan: Plan, most: int = _SHOWN) -> str:
    """The tasks, one per line and without their notes; if there are many, only open ones, and the number of the
    others."""
    shown = list(plan.tasks if len(plan.tasks) <= most else plan.open[:most])
    lines = [printable(f"[{MARKS[task.state]}] {task.label}") for task in shown]
    omitted = [task for task in plan.tasks if task not in shown]
    still_open = sum(task in plan.open for task in omitted)
    if len(omitted) > still_open:
        lines.append(f"({len(omitted) - still_open} more done or dropped)")
    if still_open:
        lines.append(f"({still_open} more open; <task/> shows all)")
    return "\n".join(lines)


def read_plan(file: Path) -> Plan:
    """The plan in `file`; an empty one if there is no file.

    Raises Refused if it is not a regular file, not UTF-8, or larger than 1 MiB.
    """
    return _decoded(file, _bytes(file))


def update_plan(file: Path, change: Callable[[Plan], Plan] = with_ids) -> Plan:
    """Apply `change` to the plan in `file`, add missing ids, save and return it.

    A concurrent edit by the user is not overwritten: `change` is applied to the new text. Raises what `read_plan` and
    `change` raise (without writing), and Busy if the file is locked or keeps changing.
    """
    from repoagent.storage.locks import hold_lock

    with hold_lock(file.with_name(f"{file.name}.lock"), label="the plan"):
        for _ in range(_TRIES):
            before = _bytes(file)
            plan = _decoded(file, before)
            new = with_ids(change(plan))
            if new == plan or _replaced(file, before, new.text.encode()):
                return new
    raise Busy(f"another program keeps changing {file}; try again")


def _replaced(file: Path, before: bytes | None, data: bytes) -> bool:
    """Write the plan if the file has the bytes `before`. False if it has not, or if the user changed it just before it
    was replaced: then it has the user's version again."""
    from repoagent.storage.atomic import write_whole
    from repoagent.storage.folders import open_folder

    new, old = file.with_name(f"{file.name}.new"), file.with_name(f"{file.name}.old")
    # synced before the comparison, to keep the time between it and the replacement short
    write_whole(new, data, settled=False)
    with open_folder(file.parent) as parent:
        rename = partial(os.replace, src_dir_fd=parent, dst_dir_fd=parent)
        with suppress(FileNotFoundError):
            os.unlink(old.name, dir_fd=parent)
        with suppress(OSError):  # no file yet, or a file system without links: a late change is not noticed
            os.link(file.name, old.name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
        late = _bytes(file) != before
        if late:
            os.unlink(new.name, dir_fd=parent)
        else:
            rename(new.name, file.name)
            late = _bytes(old) not in (None, before)
            if late and _bytes(file) == data:
                rename(old.name, file.name)
        with suppress(FileNotFoundError):
            os.unlink(old.name, dir_fd=parent)
    return not late


def _bytes(file: Path) -> bytes | None:
    from repoagent.storage.atomic import read_regular

    return read_regular(file, most=_MAX_BYTES)


def _decoded(file: Path, data: bytes | None) -> Plan:
    if data is None:
        return Plan(EMPTY)
    try:
        return Plan(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"{file} is not UTF-8 (line {line}); save it as UTF-8 or move it away") from error


def plan_from(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Plan:
    """The plan according to the conversation: the successful `task` actions applied to the user's last version. `tools`
    are the names of all tools of the run."""
    plan, names = Plan(EMPTY), frozenset(tools)
    for number, turn in enumerate(turns):
        if turn.role == "observation" and "plan" in turn.meta:
            plan = Plan(turn.meta["plan"])
        if turn.role != "assistant" or "<task" not in turn.text:
            continue
        after = takewhile(
            lambda seen: seen.role == "observation" and "plan" not in seen.meta, turns[number + 1 :]
        )
        actions = parse_reply(turn.text, names, nonce=nonce, was_cut="dropped" in turn.meta).actions
        for action, result in zip(actions, Step(turn, tuple(after)).performed, strict=False):
            if action.kind == "task" and result.meta.get("ok") != "no":
                with suppress(UsageError):  # an edit of the user that was not yet in the conversation
                    plan = with_ids(change_plan(plan, action)[0])
    return plan


def plan_news(file: Path, turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Turn | None:
    """The plan after the user's edits since it was last in the conversation, as a turn to append; None without edits.

    Call it before each model call. Recreates a missing file from the conversation. Secrets in the file are masked in
    the turn. Raises what `update_plan` raises.
    """
    from repoagent.storage.secrets import mask

    known = plan_from(turns, tools, nonce)
    if known.tasks and not file.exists():
        update_plan(file, lambda plan: plan if plan.tasks else known)
    plan = Plan(mask(update_plan(file).text))
    if plan.tasks == known.tasks:
        return None
    text = f"The user edited the plan. It is now:\n{_whole(plan)}"
    shown = shorten(text, _NEWS, "[…; <task/> shows the plan]")
    turn = extra_turn("observation", shown, NEWS)
    return replace(turn, meta={**turn.meta, "plan": plan.text})
