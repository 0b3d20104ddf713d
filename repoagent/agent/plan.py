"""A plan: a text whose check-list lines are tasks. Any text is a plan; a change rewrites only the lines it affects.

    - [x] 1. Find out why the test fails
    - [~] 2. Fix the parser
      Indented text below a task is its note.
      - [ ] 2.1. Read a number with a sign

A line keeps its id when it is moved. A line without an id, or with the id of an earlier line, gets the next free id
below its parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

from repoagent.dataclass import dataclass
from repoagent.llm.model import printable

TaskState = Literal["open", "active", "done", "dropped", "blocked"]

MARKS: Mapping[TaskState, str] = {"open": " ", "active": "~", "done": "x", "dropped": "-", "blocked": "!"}
SETTLED = frozenset({"done", "dropped"})
_STATES: Mapping[str, TaskState] = {
    **{mark: state for state, mark in MARKS.items()}, "": "open", "X": "done", "/": "active", ">": "active",
}  # fmt: skip
_ITEM = re.compile(
    r"(?P<indent>[ \t]*)(?P<bullet>[-*+]|[0-9]{1,9}[.)])[ \t]+\[(?P<mark>[ xX~!/>-]?)\][ \t]+(?P<rest>\S.*?)\s*"
)
_ID = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){0,60})[.:](?:\s+|\Z)")
_ESCAPED = re.compile(r"\\+(?=(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[)")
_NUMBER = re.compile(r"[0-9]{1,9}")
_MAX_NUMBER, _MAX_DEPTH = 10**8, 40

EMPTY = "# Plan\n\n<!-- [ ] open, [~] active, [x] done, [-] dropped, [!] blocked. Edit freely; a new line needs no "
EMPTY += "number. -->\n\n"


@dataclass(frozen=True)
class Task:
    """One task; `under` is the id of its parent, "" at the top."""

    id: str
    title: str
    state: TaskState = "open"
    note: str = ""
    under: str = ""

    @property
    def label(self) -> str:
        """The id and title, as in its line."""
        return f"{self.id}. {self.title}".rstrip()


@dataclass
class Item:
    """A task and its lines: its own, the end of its note, and the end of its subtasks (from 0, ends excluded).
    `numbered`: its line contains its id."""

    task: Task
    line: int
    note_end: int
    end: int
    indent: str
    bullet: str
    numbered: bool
    has_subtasks: bool = False

    @property
    def inner(self) -> str:
        """The indentation of its content."""
        return self.indent + " " * (len(self.bullet) + 1)


@dataclass(frozen=True)
class Plan:
    """The text of a plan, and its tasks in order."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def items(self) -> tuple[Item, ...]:
        return tuple(_parse(self.lines))

    @property
    def tasks(self) -> tuple[Task, ...]:
        return tuple(item.task for item in self.items)

    @cached_property
    def open(self) -> tuple[Task, ...]:
        """The unsettled tasks; settling a task settles its subtasks, too."""
        return tuple(
            task for task in self.tasks if all(above.state not in SETTLED for above in self.path(task.id))
        )

    def item(self, id: str) -> Item:
        """Raises KeyError if there is no such task."""
        for item in self.items:
            if item.task.id == id:
                return item
        raise KeyError(id)

    @cached_property
    def _by_id(self) -> dict[str, Task]:
        return {task.id: task for task in self.tasks}

    def path(self, id: str) -> list[Task]:
        """The task `id` and those above it, the innermost first."""
        path = []
        while id in self._by_id:
            path.append(self._by_id[id])
            id = path[-1].under
        return path


def _parse(lines: Sequence[str]) -> list[Item]:
    matches = {n: match for n, line in enumerate(lines) if (match := _ITEM.fullmatch(line))}
    id_matches = {n: _ID.match(match["rest"]) for n, match in matches.items()}
    own_ids = {n: canonical(match[1]) if match else "" for n, match in id_matches.items()}
    last = _last_numbers(own_ids.values())
    used: set[str] = set()
    items: list[Item] = []
    above: list[Item] = []  # the items that contain the current line, outermost first
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        while above and len(above[-1].indent.expandtabs(4)) >= len(indent.expandtabs(4)):
            above.pop()
        for item in above:
            item.end = number + 1
        if number in matches:
            match, own_id = matches[number], own_ids[number]
            parent = above[-1].task.id if above else ""
            id = own_id if own_id and own_id not in used else _next_id(last, parent)
            used.add(id)
            title = _ID.sub("", match["rest"], count=1) if own_id else match["rest"]
            if above:
                above[-1].has_subtasks = True
            task = Task(id, title, _STATES[match["mark"]], under=parent)
            above.append(Item(task, number, number + 1, number + 1, indent, match["bullet"], own_id == id))
            items.append(above[-1])
        elif above and not above[-1].has_subtasks:
            above[-1].note_end = number + 1
    for item in items:
        note = [line.rstrip() for line in lines[item.line + 1 : item.note_end]]
        note = [
            line[len(item.inner) :] if line.startswith(item.inner) else line.lstrip(" \t") for line in note
        ]
        item.task = replace(item.task, note="\n".join(map(_unescape, note)).strip("\n"))
    return items


def _last_numbers(ids: Iterable[str]) -> dict[str, int]:
    """The highest number in use below each id, ignoring extremely high ones."""
    last: dict[str, int] = {}
    for id in ids:
        parent, _, number = id.rpartition(".")
        if int(number or 0) < _MAX_NUMBER:
            last[parent] = max(last.get(parent, 0), int(number or 0))
    return last


def _next_id(last: dict[str, int], under: str) -> str:
    """Allocate the next free id under another ("" for the top). Below a very deep one, ids are those of the top."""
    parent = under if under.count(".") < _MAX_DEPTH else ""
    last[parent] = last.get(parent, 0) + 1
    return f"{parent}.{last[parent]}".lstrip(".")


def canonical(id: str) -> str:
    """The canonical form of an id: "1.2" for "1.02."; other text is returned unchanged."""
    id = id.strip().rstrip(".:")
    parts = id.split(".")
    return ".".join(str(int(part)) for part in parts) if all(map(_NUMBER.fullmatch, parts)) else id


def numbered(plan: Plan) -> Plan:
    """Add ids to the lines without one, so that they stay when lines are moved."""
    for item in plan.items:
        if not item.numbered:
            plan = _with_line(plan, item, item.task)
    return plan


def added(plan: Plan, task: Task) -> tuple[Plan, str]:
    """Add `task` as the last one under `task.under`; also return its id. Raises KeyError for an unknown parent."""
    plan = numbered(plan)
    siblings = [item for item in plan.items if item.task.under == task.under]
    line, indent, bullet = len(plan.lines), "", "-"
    if siblings:
        line, indent = siblings[-1].end, siblings[-1].indent
        bullet = siblings[-1].bullet if len(siblings[-1].bullet) == 1 else "-"
    elif task.under:
        parent = plan.item(task.under)
        line, indent = parent.end, parent.inner
    task = replace(task, id=_next_id(_last_numbers(existing.id for existing in plan.tasks), task.under))
    item = Item(task, line, line, line, indent, bullet, True)
    return _insert(plan, line, [_line(item, task), *_note_lines(task.note, item.inner)]), task.id


def changed(plan: Plan, id: str, title: str, state: TaskState) -> Plan:
    """Give the task `id` a title and a state. Raises KeyError."""
    plan = numbered(plan)
    item = plan.item(id)
    new = replace(item.task, title=title, state=state)
    return plan if new == item.task else _with_line(plan, item, new)


def noted(plan: Plan, id: str, note: str) -> Plan:
    """Append `note` to the note of the task `id`, unless that already contains it. Raises KeyError."""
    plan = numbered(plan)
    item = plan.item(id)
    text = _clean(note)
    if not text or f"\n{text}\n" in f"\n{item.task.note}\n":
        return plan
    return _insert(plan, item.note_end, _note_lines(note, item.inner))


def _with_line(plan: Plan, item: Item, task: Task) -> Plan:
    lines = list(plan.lines)
    lines[item.line] = _line(item, task) + "\r" * lines[item.line].endswith("\r")
    return Plan("\n".join(lines))


def _insert(plan: Plan, at: int, new: Sequence[str]) -> Plan:
    lines = list(plan.lines)
    if at == len(lines) and not lines[-1]:  # before the newline at the end of the file
        at -= 1
    if lines[0].endswith("\r"):
        new = [f"{line.rstrip()}\r" for line in new]
    lines[at:at] = new
    if at + len(new) == len(lines):
        lines.append("")
    return Plan("\n".join(lines))


def _line(item: Item, task: Task) -> str:
    return f"{item.indent}{item.bullet} [{MARKS[task.state]}] {task.label}"


def _note_lines(note: str, inner: str) -> list[str]:
    """The lines of a note below a task; those that would be parsed as tasks get a backslash."""
    lines = []
    for line in _clean(note).split("\n"):
        body = line.lstrip(" \t")
        escape = "\\" if _ESCAPED.match("\\" + body) else ""
        lines.append(f"{inner}{line[: len(line) - len(body)]}{escape}{body}" if line else "")
    return lines if any(lines) else []


def _unescape(line: str) -> str:
    body = line.lstrip(" \t")
    return f"{line[: len(line) - len(body)]}{body[1:]}" if _ESCAPED.match(body) else line


def _clean(note: str) -> str:
    """A note without control characters, and without blank lines at both ends."""
    lines = [line.rstrip() for line in printable(note.replace("\r\n", "\n")).split("\n")]
    return "\n".join(lines).strip("\n")
