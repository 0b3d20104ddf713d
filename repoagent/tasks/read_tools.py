"""The tools that look, as a run has them: on the current files, and on the outputs of the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.edit.prompt.blocks import quoted, shown
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.prompt.large_files import read_part
from repoagent.edit.tools import (
    files_tool,
    history_tool,
    known_or_read,
    matches_text,
    neighbors_tool,
    outline_tool,
    read_tool,
    recall_tool,
    search,
    search_tool,
    uses_tool,
)
from repoagent.errors import RepoagentError, UsageError
from repoagent.llm.model import fence
from repoagent.storage.atomic import read_regular
from repoagent.tasks.context import RunContext

OUTPUT = "@output/"  # how the path of an output begins, as a model names it
NOTES_TOKENS = 800


def reading_tools(context: RunContext) -> tuple[Tool, ...]:
    """`read`, `files`, `search`, `outline`, `history`, `neighbors`, `uses` and `recall`."""
    bench = context.bench
    looking = [
        _reads_outputs(context, _noting(context, read_tool(bench))),
        files_tool(bench),
        _searches_outputs(context, search_tool(bench)),
        outline_tool(bench),
        history_tool(bench),
        neighbors_tool(bench),
        uses_tool(bench),
        recall_tool(bench),
    ]
    return tuple(replace(masked_tool(_afresh(context, tool), bench), replay=False) for tool in looking)


def output_name(path: Path) -> str:
    """How the model names an output of the run."""
    return OUTPUT + path.name


def _afresh(context: RunContext, tool: Tool) -> Tool:
    def perform(action: Action) -> Observation:
        context.clear()
        return tool.perform(action)

    return replace(tool, perform=perform)


def _noting(context: RunContext, tool: Tool) -> Tool:
    """`read`, which says once of each file what was learned about it before."""

    def perform(action: Action) -> Observation:
        seen = tool.perform(action)
        if not seen.ok:
            return seen
        source = known_or_read(context.bench, action.args.get("path", ""))
        context.shown[source.path] = source.blob
        if source.path in context.noted or not context.settings.switch("memory.enabled"):
            return seen
        from repoagent.memory.identity.store import resolve
        from repoagent.memory.prompt import notes_block

        context.noted.add(source.path)
        data = source.data or b""
        file_memory = resolve(context.layout, context.worktree, source.path, data)
        notes = notes_block(file_memory, NOTES_TOKENS, data=data) if file_memory is not None else ""
        if not notes.strip():
            return seen
        text = f"{seen.text}\nNotes from earlier edits:\n{fence(notes.strip(), 'memory')}"
        return replace(seen, text=text)

    return replace(tool, perform=perform)


def _reads_outputs(context: RunContext, tool: Tool) -> Tool:
    def perform(action: Action) -> Observation:
        path = action.args.get("path", "").strip()
        if not path.startswith(OUTPUT):
            return tool.perform(action)
        return _reporting("read", lambda: _output_part(context, path, action))

    text = f'{tool.text} An output of this run is path="{OUTPUT}NAME".'
    return replace(tool, perform=perform, text=text)


def _output_part(context: RunContext, path: str, action: Action) -> Observation:
    text = _output(context, path)
    args = action.args
    part = read_part(text, args.get("lines", ""), args.get("characters", ""), context.bench.read_limit)
    label = f'output path={quoted(path)} lines="{part.first}-{part.last}"'
    return Observation("read", "\n".join(filter(None, [fence(part.text, label), part.rest])))


def _searches_outputs(context: RunContext, tool: Tool) -> Tool:
    def perform(action: Action) -> Observation:
        path = action.args.get("path", "").strip()
        if not path.startswith(OUTPUT):
            return tool.perform(action)
        return _reporting("search", lambda: _output_matches(context, path, action))

    return replace(tool, perform=perform)


def _output_matches(context: RunContext, path: str, action: Action) -> Observation:
    pattern = action.args.get("pattern") or action.body.strip()
    if not pattern.strip():
        raise UsageError("Name what to search for.")
    _output(context, path)  # refuses what is no output
    found = search(context.run_dir.output, pattern, lambda name: "", path.removeprefix(OUTPUT), output=True)
    return Observation("search", matches_text(found))


def _output(context: RunContext, path: str) -> str:
    name = path.removeprefix(OUTPUT)
    if not re.fullmatch(r"[\w][\w.,+=-]*", name):
        raise UsageError(f"{path} is not an output of this run")
    data = read_regular(context.run_dir.output / name)
    if data is None:
        raise UsageError(f"this run has no output {path}")
    return shown(data)


def _reporting(kind: str, perform: Callable[[], Observation]) -> Observation:
    try:
        return perform()
    except RepoagentError as error:
        return Observation(kind, str(error), ok=False)
