"""Changes of a plan: from a text to a text, line by line. What a change is not about stays as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from repoagent.agent.plan.document import Plan
from repoagent.agent.plan.lines import Item, Task, item_line, last_numbers, next_id, quoted
from repoagent.llm.quoting import printable

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
    at, indent, bullet = _place(plan, task.under, before)
    under = _item(plan, before).task.under if before else task.under
    task = replace(task, id=next_id(last_numbers(one.id for one in plan.tasks), under), under=under)
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
    at, indent, _ = _place(left, under, before)
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


def _place(plan: Plan, under: str, before: str) -> tuple[int, str, str]:
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
    at = _line_of(plan, at)
    if lines[0].endswith("\r"):
        new = [f"{line.rstrip()}\r" for line in new]
    lines[at:at] = new
    if at + len(new) == len(lines):
        lines.append("")
    return Plan("\n".join(lines))


def _line_of(plan: Plan, at: int) -> int:
    """Where a new line goes: before the end of the file, not after it."""
    return at - 1 if at == len(plan.lines) and not plan.lines[-1] else at


def _item(plan: Plan, id: str) -> Item:
    found = plan.item(id)
    if found is None:
        raise KeyError(id)
    return found


def _note_lines(note: str, inner: str) -> list[str]:
    note = clean_note(note)
    return [inner + quoted(line) if line else "" for line in note.split("\n")] if note else []


def _ended(line: str, before: str) -> str:
    return line + "\r" * before.endswith("\r")
