"""The plan of a run: a check list in Markdown that a person edits while the run goes on.

Read `document` first (the text and what of it are tasks; `lines` and `reading` are how), then `changes` (a change of
the text, pure), `rules` (what a change may not do), `action` (what a model asks for, performed on a plan), `keeping`
(the file) and `again` (the plan made of the conversation alone, and what a person has changed of it meanwhile).

    plan = read_plan(file)                         # an empty one when there is no file
    tools = [..., task_tool(file)]
    turn = plan_news(file, state.turns, names)     # before a model call: what the person has edited, or None
    if turn is not None:
        state = state.with_turn(turn)
    still = open_tasks(file)                       # at the end of a run
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repoagent.door import door

if TYPE_CHECKING:
    from repoagent.agent.plan.again import plan_from, plan_news
    from repoagent.agent.plan.document import Plan
    from repoagent.agent.plan.keeping import open_tasks, read_plan, task_tool, update_plan
    from repoagent.agent.plan.lines import Task

__all__ = [
    "Plan",
    "Task",
    "open_tasks",
    "plan_from",
    "plan_news",
    "read_plan",
    "task_tool",
    "update_plan",
]

_HOME = {
    "Plan": "document",
    "Task": "lines",
    "open_tasks": "keeping",
    "plan_from": "again",
    "plan_news": "again",
    "read_plan": "keeping",
    "task_tool": "keeping",
    "update_plan": "keeping",
}

__getattr__ = door(__name__, _HOME)
