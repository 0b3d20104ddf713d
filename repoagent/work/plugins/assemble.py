"""All tools that others make, each behind the gate; a broken one is left out, with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from repoagent.agent import Action, Observation, Tool
from repoagent.agent.approval import Asked, Verdict
from repoagent.agent.pieces import DATA
from repoagent.agent.tool import EDIT, OWN
from repoagent.errors import Refused, UsageError
from repoagent.llm.quoting import printable
from repoagent.store.report import Warn
from repoagent.work.plugins.descriptions import NAME, describe, program
from repoagent.work.plugins.entry_points import Context, PluginTool, contained, installed, tools_of
from repoagent.work.plugins.programs import program_tool
from repoagent.work.texts import cut

Decide = Callable[[Asked], Verdict]

# Names that mean something in a reply or in what a model is shown.
_MEANT = {EDIT, "observation", "user", "assistant", "system", "human", *DATA, *(tool.name for tool in OWN)}
_MEANT |= {"file", "content", "context", "matches", "output", "errors", "files", "skills", "agents", "agent"}
_SHOWN = 500  # characters of an action, for the person who is asked


def plugin_tools(
    top: Path,
    programs: Sequence[str],
    *,
    taken: Collection[str],
    decide: Decide,
    warn: Warn,
    settings: Mapping[str, str] | None = None,
    audit: Callable[[Mapping[str, object]], None] = lambda event: None,
) -> tuple[Tool, ...]:
    """The tools of installed packages (entry points `repoagent.tools`), then those of `programs` (`run.tools`).

    taken: the names of the tools there are already. decide: `Gate.decide`, asked before each call of a tool that does
    more than read. warn: is told a sentence for each that is left out. settings: of all of them, `NAME.KEY` each (what
    `Settings.names("tool")` gives). Nothing of a repository is looked at.
    """
    tools: dict[str, Tool] = {}

    def add(tool: Tool, of: str, *, reads_only: bool) -> None:
        if not (isinstance(tool.name, str) and NAME.fullmatch(tool.name)):
            warn(f"{of} makes a tool with the name {tool.name!r}, which can't be one: it is left out")
        elif tool.name in tools or tool.name in taken or tool.name in _MEANT:
            warn(f"{of} makes a tool {tool.name}, and there is one of that name: it is left out")
        else:
            tools[tool.name] = replace(tool, needs="nothing") if reads_only else gated(tool, decide)

    for point in installed():
        start = f"{point.name}."
        own = {key[len(start) :]: value for key, value in (settings or {}).items() if key.startswith(start)}
        of = f"the plug-in {point.name} ({point.value})"
        try:
            made = tools_of(point, Context(top, own, audit))
        except (Refused, UsageError) as error:
            warn(f"{of} {error}: it is left out")
            continue
        for tool in made:
            add(contained(tool), of, reads_only=isinstance(tool, PluginTool) and tool.reads_only)
    for entry in programs:
        of = f"the tool {entry} of run.tools"
        try:
            path = program(entry, top)
            said = describe(path, top)
        except Refused as error:
            warn(f"{of} {error}: it is left out")
            continue
        add(program_tool(path, said, top, audit), of, reads_only=said.reads_only)
    return tuple(tools.values())


def gated(tool: Tool, decide: Decide) -> Tool:
    """The tool, asked about before each call. "Always" allows it whatever its arguments are."""

    def perform(action: Action) -> Observation:
        asked = Asked(
            "tool", shown(action), (f"tool:{tool.name}(*",), "it runs with your rights, in no sandbox"
        )
        verdict = decide(asked)
        if not verdict.allowed:
            return Observation(tool.name, f"{tool.name} was not run: {verdict.reason}", ok=False)
        return tool.perform(action)

    return replace(tool, perform=perform)


def shown(action: Action) -> str:
    """An action on a line, for the person who is asked: `weather(city="Oslo")`, a body after it."""
    args = ", ".join(f'{key}="{value}"' for key, value in action.args.items())
    body = f" {action.body.strip()}" if action.body.strip() else ""
    return cut(re.sub(r"\s+", " ", printable(f"{action.kind}({args}){body}")), _SHOWN)
