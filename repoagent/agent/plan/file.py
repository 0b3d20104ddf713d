"""The file of the plan: changed under a lock, never over a user's concurrent edit, rebuilt from the conversation.

What the model has seen of the plan follows from the conversation alone, so a run can resume on another machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.parse_reply import parse
from repoagent.agent.plan.document import EMPTY, Plan, Task
from repoagent.agent.plan.tool import TEXT, answer, is_done, numbered, performed, short
from repoagent.agent.state import Needs, Step, Tool, beside
from repoagent.errors import Busy, Refused, RepoagentError, UsageError
from repoagent.llm.conversation import Turn
from repoagent.llm.model import fence, printable

MOST = 1 << 20  # bytes
_TRIES = 50
_BOM = b"\xef\xbb\xbf"


def read_plan(file: Path) -> Plan:
    """The plan in `file`; one without tasks when there is no file.

    Raises Refused when it is no regular file, not UTF-8, or larger than 1 MiB.
    """
    return _decoded(file, _bytes(file))


def open_tasks(file: Path) -> tuple[Task, ...]:
    """What of the plan is neither done nor dropped. Raises as `read_plan`."""
    return read_plan(file).open


def task_tool(file: Path) -> Tool:
    """The tool `task`: adds to the plan in `file` and changes it, and answers with the plan as it stands."""

    def perform(action: Action) -> Observation:
        sentences: list[str] = []

        def change(plan: Plan) -> Plan:
            made, sentence = performed(plan, action)
            sentences.append(sentence)
            return made

        try:
            plan = update_plan(file, change)
        except RepoagentError as error:
            return Observation("task", str(error), ok=False, blocks=False)
        tasks = [{"id": task.id, "title": task.title, "state": task.state} for task in plan.tasks]
        return Observation(
            "task",
            sentences[-1] or answer(plan),
            data={"tasks": tasks},
            once=fence(short(plan), "plan") if sentences[-1] and plan.tasks else "",
        )

    def needs(action: Action) -> Needs:
        if not action.args and not action.body.strip():
            return "nothing"
        return "all" if is_done(action) else "writes"

    return Tool("task", TEXT, perform, needs=needs)


def update_plan(file: Path, change: Callable[[Plan], Plan] = numbered) -> Plan:
    """Put the plan in `file` through `change` and keep what comes of it; return that. Every task in it has its id.

    A concurrent edit of the user is not overwritten: `change` is applied to the new text. Raises as `read_plan` and
    `change` do (nothing is written then), Busy if the file is locked or constantly written.
    """
    from repoagent.storage.locks import locked

    with locked(file.with_name(f"{file.name}.lock"), what="the plan"):
        late: bytes | None = None
        for _ in range(_TRIES):
            before = _bytes(file)
            plan = _decoded(file, before if late is None else late)
            made = numbered(change(plan))
            if made == plan and late is None:
                return made
            replaced, late = _replaced(file, before, made)
            if replaced and late is None:
                return made
    raise Busy(f"another program keeps writing {file}; try again")


def _replaced(file: Path, before: bytes | None, plan: Plan) -> tuple[bool, bytes | None]:
    """Write the plan if the file still has the bytes `before`: whether it did, and what the user wrote into the old
    file just before it was replaced, if anything."""
    from repoagent.storage.atomic import write_whole
    from repoagent.storage.folders import open_folder

    data = (_BOM if before and before.startswith(_BOM) else b"") + plan.text.encode()
    # durable before the last look, so that little time passes after it
    fresh = file.with_name(f"{file.name}.new")
    write_whole(fresh, data, settled=False)
    with open_folder(file.parent) as parent, _second_name(parent, file, before) as old:
        if _bytes(file) != before:
            os.unlink(fresh.name, dir_fd=parent)
            return False, None
        os.replace(fresh.name, file.name, src_dir_fd=parent, dst_dir_fd=parent)
        late = _bytes(old) if old else before
    return True, None if late == before else late


@contextmanager
def _second_name(parent: int, file: Path, before: bytes | None) -> Iterator[Path | None]:
    """Another name for the file as it is now, to read it by when it was replaced; None where there can be none."""
    old = file.with_name(f"{file.name}.old")
    made = False
    if before is not None:
        with suppress(FileNotFoundError):
            os.unlink(old.name, dir_fd=parent)
        with suppress(OSError):  # a file system without links: who writes in this very moment is not noticed
            os.link(file.name, old.name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
            made = True
    try:
        yield old if made else None
    finally:
        if made:
            os.unlink(old.name, dir_fd=parent)


def _bytes(file: Path) -> bytes | None:
    from repoagent.storage.atomic import read_regular

    data = read_regular(file)
    if data is not None and len(data) > MOST:
        raise Refused(f"{file} is too large for a plan ({len(data):,} bytes); shorten it or move it away")
    return data


def _decoded(file: Path, data: bytes | None) -> Plan:
    if data is None:
        return Plan(EMPTY)
    try:
        return Plan(data.removeprefix(_BOM).decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused(f"{file} is not UTF-8 (line {line}); save it as UTF-8 or move it away") from error


NEWS = "plan"  # the kind of a turn with the user's edits; its meta has the whole text
_LINES = 24


def plan_from(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Plan:
    """The plan according to the conversation: the successful `task` actions applied to the last text of the user.
    `tools` are the names of all tools of the run."""
    plan, names = Plan(EMPTY), frozenset(tools)
    reply: Turn | None = None
    seen: list[Turn] = []
    for turn in [*turns, Turn("user", "")]:
        if turn.role == "observation" and "plan" not in turn.meta:
            seen.append(turn)
            continue
        if reply is not None:
            plan = _after(plan, Step(reply, tuple(seen)), names, nonce)
            reply = None
        if "plan" in turn.meta and turn.role == "observation":
            plan = Plan(turn.meta["plan"])
        elif turn.role == "assistant":
            reply, seen = turn, []
    return plan


def plan_news(file: Path, turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Turn | None:
    """The user's edits of the plan since the conversation last had it, as a turn to append; None without edits.

    Call it before each model call. Recreates a missing file from the conversation. Raises what `update_plan` does.
    """
    known = plan_from(turns, tools, nonce)
    if known.tasks and not file.exists():
        update_plan(file, lambda plan: plan if plan.tasks else known)
    plan = update_plan(file)
    lines = differences(known, plan)
    if not lines:
        return None
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"({len(lines) - _LINES} more; <task/> shows the plan)"]
    text = f"The user edited the plan:\n{fence(printable(chr(10).join(lines)), 'changes')}\n"
    text += f"The plan is now:\n{fence(short(plan), 'plan')}" if plan.tasks else answer(plan)
    turn = beside("observation", text, NEWS)
    return replace(turn, meta={**turn.meta, "plan": plan.text})


def differences(before: Plan, after: Plan) -> list[str]:
    """What became of the tasks, a line each."""
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in after.tasks}
    lines = [f"- {task.id}. {task.title}" for task in old.values() if task.id not in new]
    for task in new.values():
        if task.id not in old:
            lines.append(
                f"+ {task.id}. {task.title} ({task.state})"
                + (f": {_one_line(task.note)}" if task.note else "")
            )
        elif changes := ", ".join(_changed(old[task.id], task)):
            lines.append(f"{task.id}: {changes}")
    order = [task.id for task in before.tasks if task.id in new]
    if order != [task.id for task in after.tasks if task.id in old]:
        lines.append("the order: " + ", ".join(task.id for task in after.tasks))
    return lines


def _changed(old: Task, new: Task) -> Iterable[str]:
    if old.state != new.state:
        yield f"{old.state} -> {new.state}"
    if old.title != new.title:
        yield f"now called {new.title}"
    if old.under != new.under:
        yield f"now under {new.under}" if new.under else "now first"
    if old.after != new.after:
        yield f"now after {', '.join(new.after)}" if new.after else "now after nothing"
    if old.note != new.note:
        yield f"note: {_one_line(new.note)}" if new.note else "its note was removed"


def _one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:300]} …"


def _after(plan: Plan, step: Step, tools: frozenset[str], nonce: str) -> Plan:
    if "<task" not in step.reply.text:
        return plan
    actions = parse(step.reply.text, tools, nonce=nonce, was_cut="dropped" in step.reply.meta).actions
    for action, seen in zip(actions, step.performed, strict=False):
        if action.kind == "task" and seen.meta.get("ok") != "no":
            plan = _then(plan, tuple(action.args.items()), action.body)
    return plan


@lru_cache(maxsize=512)  # what was asked for all through a conversation is done again before each call
def _then(plan: Plan, args: tuple[tuple[str, str], ...], note: str) -> Plan:
    try:
        return numbered(performed(plan, Action("task", dict(args), note))[0])
    except UsageError:  # the plan had an edit of the user that was not in the conversation yet
        return plan
