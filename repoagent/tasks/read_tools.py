"""The reading tools of a run, which read the current files and the outputs of the run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from repoagent.agent.actions import Action, Observation
from repoagent.agent.state import Tool
from repoagent.edit.file_search import search
from repoagent.edit.prompt.blocks import quoted, shown
from repoagent.edit.prompt.build import masked_tool
from repoagent.edit.prompt.large_files import read_part
from repoagent.edit.tools import look_up, matches_text
from repoagent.errors import RepoagentError, UsageError
from repoagent.llm.model import fence
from repoagent.storage.atomic import read_regular
from repoagent.tasks.run_context import RunContext

OUTPUT = "@output/"  # prefix of the path of an output, for the model
NOTES_TOKENS = 800


def output_name(path: Path) -> str:
    """The path of an output of the run, as the model uses it."""
    return OUTPUT + path.name


def reading_tools(context: RunContext) -> tuple[Tool, ...]:
    """`read`, `files`, `search`, `outline`, `history`, `neighbors`, `uses` and `recall`."""
    tool_context = context.tool_context

    def read_output(name: str, text: str, action: Action) -> str:
        lines, characters = action.args.get("lines", ""), action.args.get("characters", "")
        part = read_part(text, lines, characters, tool_context.read_limit)
        label = f'output path={quoted(OUTPUT + name)} lines="{part.first}-{part.last}"'
        return "\n".join(filter(None, [fence(part.text, label), part.rest]))

    def search_output(name: str, text: str, action: Action) -> str:
        pattern = action.args.get("pattern") or action.body.strip()
        if not pattern.strip():
            raise UsageError("Name what to search for.")
        return matches_text(search(context.run_dir.output, pattern, lambda name: "", name, output=True))

    read = _on_outputs(context, _with_notes(context, look_up(tool_context, "read")), read_output)
    tools = [
        replace(read, text=f'{read.text} An output of this run is path="{OUTPUT}NAME".'),
        look_up(tool_context, "files"),
        _on_outputs(context, look_up(tool_context, "search"), search_output),
        *(look_up(tool_context, name) for name in ("outline", "history", "neighbors", "uses", "recall")),
    ]

    def on_current_files(tool: Tool) -> Tool:
        def perform(action: Action) -> Observation:
            context.forget_files()
            return tool.perform(action)

        return replace(masked_tool(replace(tool, perform=perform), tool_context), replay=False)

    return tuple(map(on_current_files, tools))


def _with_notes(context: RunContext, tool: Tool) -> Tool:
    """The tool `read`, which also shows the notes of each file, once."""

    def perform(action: Action) -> Observation:
        observation = tool.perform(action)
        if not observation.ok:
            return observation
        source = context.tool_context.source(action.args.get("path", ""))
        context.shown[source.path] = source.blob
        if source.path in context.notes_shown or not context.settings.switch("memory.enabled"):
            return observation
        from repoagent.memory.identity.store import resolve
        from repoagent.memory.prompt import notes_block

        context.notes_shown.add(source.path)
        data = source.data or b""
        memory = resolve(context.layout, context.worktree, source.path, data)
        notes = notes_block(memory, NOTES_TOKENS, data=data).strip() if memory is not None else ""
        block = f"\nNotes from earlier edits:\n{fence(notes, 'memory')}" if notes else ""
        return replace(observation, text=observation.text + block)

    return replace(tool, perform=perform)


def _on_outputs(context: RunContext, tool: Tool, on_output: Callable[[str, str, Action], str]) -> Tool:
    """The tool, which also accepts the path of an output: `on_output` gets its name and text."""

    def perform(action: Action) -> Observation:
        path = action.args.get("path", "").strip()
        if not path.startswith(OUTPUT):
            return tool.perform(action)
        name = path.removeprefix(OUTPUT)
        try:
            if not re.fullmatch(r"[\w][\w.,+=-]*", name):
                raise UsageError(f"{path} is not an output of this run")
            data = read_regular(context.run_dir.output / name)
            if data is None:
                raise UsageError(f"this run has no output {path}")
            return Observation(tool.name, on_output(name, shown(data), action))
        except RepoagentError as error:
            return Observation(tool.name, str(error), ok=False)

    return replace(tool, perform=perform)
