"""The plan made again from the conversation, and what a person has made of the file since.

Both rest on the conversation alone, so a run that is continued, on another machine too, knows what its model has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from repoagent.agent.actions import Action
from repoagent.agent.plan.action import answer, performed, short
from repoagent.agent.plan.changes import numbered
from repoagent.agent.plan.document import EMPTY, Plan
from repoagent.agent.plan.keeping import update_plan
from repoagent.agent.plan.lines import Task
from repoagent.agent.protocol import parse
from repoagent.agent.state import Step, beside
from repoagent.errors import UsageError
from repoagent.llm import Turn
from repoagent.llm.quoting import fence, printable

NEWS = "plan"  # the kind of a turn that says what the person has edited; its meta holds the whole text
_LINES = 24


def plan_from(turns: Sequence[Turn], tools: Collection[str], nonce: str = "") -> Plan:
    """The plan as the conversation has it: what was asked of `task` and done, upon the last text of a person's that
    was told. `tools` are the names of all tools of the run (a reply is read as the loop reads it)."""
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
    """What a person has edited in the plan since the conversation last had it, as a turn to be appended; None for
    nothing. A file that is missing is made again from the conversation. To be asked before a model call.

    Raises what `keeping.update_plan` does.
    """
    told = plan_from(turns, tools, nonce)
    if told.tasks and not file.exists():
        update_plan(file, lambda plan: plan if plan.tasks else told)
    plan = update_plan(file)
    lines = differences(told, plan)
    if not lines:
        return None
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"(and {len(lines) - _LINES} more: <task/> shows the plan)"]
    text = f"The person has edited the plan:\n{fence(printable(chr(10).join(lines)), 'changes')}\n"
    text += f"It is now:\n{fence(short(plan), 'plan')}" if plan.tasks else answer(plan)
    turn = beside("observation", text, NEWS)
    return replace(turn, meta={**turn.meta, "plan": plan.text})


def differences(before: Plan, now: Plan) -> list[str]:
    """What became of the tasks, a line each."""
    old = {task.id: task for task in before.tasks}
    new = {task.id: task for task in now.tasks}
    lines = [f"- {task.id}. {task.title}" for task in old.values() if task.id not in new]
    for task in new.values():
        if task.id not in old:
            lines.append(
                f"+ {task.id}. {task.title} ({task.state})"
                + (f": {_one_line(task.note)}" if task.note else "")
            )
        elif said := ", ".join(_changed(old[task.id], task)):
            lines.append(f"{task.id}: {said}")
    order = [task.id for task in before.tasks if task.id in new]
    if order != [task.id for task in now.tasks if task.id in old]:
        lines.append("the order: " + ", ".join(task.id for task in now.tasks))
    return lines


def _changed(old: Task, new: Task) -> Iterable[str]:
    if old.state != new.state:
        yield f"{old.state} -> {new.state}"
    if old.title != new.title:
        yield f"now called {new.title}"
    if old.under != new.under:
        yield f"now under {new.under}" if new.under else "now at the top"
    if old.after != new.after:
        yield f"now after {', '.join(new.after)}" if new.after else "now after nothing"
    if old.note != new.note:
        yield f"note: {_one_line(new.note)}" if new.note else "its note is gone"


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
    except UsageError:  # it was asked of a plan that a person had edited, and that was not told yet
        return plan
