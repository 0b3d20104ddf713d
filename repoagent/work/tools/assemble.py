"""The tools of a run: which there are, and which of them this one may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from repoagent.agent import Action, Observation, Tool
from repoagent.agent.plan import task_tool
from repoagent.agent.tool import EDIT
from repoagent.agent.window import spilling
from repoagent.edit.landing.bench import new_edit_id
from repoagent.repo import FileChange
from repoagent.store.masking import mask
from repoagent.work.changes import change_tools
from repoagent.work.desk import DRAFT, Desk
from repoagent.work.landing.finishing import Finishing
from repoagent.work.landing.writing import write, writing_tool
from repoagent.work.tools.reading import output_name, reading_tools
from repoagent.work.tools.scratch import write_tool

CHANGES = frozenset({EDIT, "keep", "restore", "write"})  # what is there only where something may be changed
WHOLE = frozenset({EDIT, "read", "run", "python", "wait"})  # what bounds itself
ALWAYS = frozenset({"finish", "reject", "think", "message"})  # what no kind of agent can be without


def tools_of(
    desk: Desk, finishing: Finishing, after_edit: Callable[[Sequence[str]], str]
) -> tuple[Tool, ...]:
    """The tools that look, write and end."""

    def write_now(changes: Sequence[FileChange]) -> None:
        write(desk.worktree, changes, new_edit_id())

    found = [
        writing_tool(desk, after_edit),
        *reading_tools(desk),
        task_tool(desk.home.plan),
        *change_tools(desk.ledger, write_now, lambda path: desk.withdraw_draft() if path == DRAFT else ""),
        write_tool(desk.home.folder / "scratch"),
        finishing.tool(),
    ]
    if desk.request.plan_only or desk.gate.mode == "read-only":
        found = [tool for tool in found if tool.name not in CHANGES]
    return tuple(found)


def fitted(desk: Desk, own: Sequence[Tool], further: Sequence[Tool]) -> tuple[Tool, ...]:
    """Those of all tools that this run may use, with what they say masked, and kept in a file where it is long."""
    found = [*own, *further]
    wanted = desk.request.tools
    if wanted is not None:
        found = [tool for tool in found if tool.name in wanted | ALWAYS]
    if any(tool.name == "restore" for tool in found):
        desk.bench.withdraw = f'`<restore path="{DRAFT}"/>` drops what is kept.'
    return tuple(
        spilling(_masked(tool), desk.home.output, output_name) if tool.name not in WHOLE else _masked(tool)
        for tool in found
    )


def _masked(tool: Tool) -> Tool:
    """The tool, with keys and tokens masked in all it says."""
    if tool.name == EDIT:  # masked where its patch is unmasked
        return tool
    return replace(tool, perform=partial(_perform_masked, tool))


def _perform_masked(tool: Tool, action: Action) -> Observation:
    seen = tool.perform(action)
    return replace(seen, text=mask(seen.text), once=mask(seen.once))
