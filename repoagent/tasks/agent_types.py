"""Types of agents: two built-in ones, and those that a user defines in Markdown files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from repoagent.agent.approvals.policy import MODES, Mode
from repoagent.dataclass import dataclass
from repoagent.errors import Refused
from repoagent.llm.usage import Limits
from repoagent.storage.layout import Warn
from repoagent.storage.secrets import mask
from repoagent.tasks.markdown_files import MarkdownFolder, cut_at_word, front_matter, read_all, text_field

# tools that only read
EXPLORE = frozenset({"read", "files", "search", "outline", "neighbors", "uses", "history", "recall"})
LARGEST = 32 * 1024  # bytes of a file
MOST = 30  # types in a prompt
LONGEST = 200  # characters of a description in a prompt
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*")


@dataclass(frozen=True)
class AgentType:
    """A type of agent. For `tools`, `model` and `mode`, None means the parent's. Every agent also has the tools in
    `toolset.ALWAYS`."""

    name: str
    description: str
    instructions: str = ""
    tools: frozenset[str] | None = None
    model: str | None = None
    limits: Limits = Limits()
    mode: Mode | None = None


BUILT_IN = {
    "explore": AgentType(
        "explore",
        "answers a question; changes nothing",
        "Answer the question with the read-only tools. Report what the caller needs: paths, lines and names "
        "first, then what follows from them. Say what you could not find.",
        EXPLORE,
        mode="read-only",
    ),
    "edit": AgentType(
        "edit",
        "makes one change",
        "Make only the change described, and read the code before you change it. Report what you changed, how "
        "you know that it is right, and what is left to do.",
        EXPLORE | {"edit", "write", "run", "wait", "kill", "task", "skill"},
    ),
}

# from the narrowest; each mode allows everything that the previous one allows
WIDENING: tuple[Mode, ...] = ("read-only", "ask", "auto-edit", "auto")

_LIMITS = {"max_turns": "turns", "max_tokens": "tokens", "max_cost": "cost", "max_time": "seconds"}


def narrow_type(type_: AgentType, tools: Set[str], mode: Mode, left: Limits) -> AgentType:
    """The type, restricted to `tools`, to `mode` and to the remaining limits of its parent, `left`."""
    allowed = frozenset(tools) if type_.tools is None else type_.tools & tools
    mode = min(mode, type_.mode or mode, key=WIDENING.index)
    return replace(type_, tools=allowed, mode=mode, limits=type_.limits.within(left))


def find_agent_types(user_folder: Path, warn: Warn) -> dict[str, AgentType]:
    """The agent types by name: the built-in ones, then `agents/*.md` in `user_folder`. The first of two with the same
    name wins. `warn` gets a sentence for each skipped type."""
    types = dict(BUILT_IN)
    folder = MarkdownFolder(user_folder / "agents")

    def read(path: Path) -> AgentType | None:
        if path.suffix != ".md" or path.name == "README.md":
            return None
        if (text := folder.read(path, LARGEST)) is None:
            raise Refused("does not exist")
        values, body = front_matter(text)
        fields = {key.replace("-", "_"): value for key, value in values.items()}
        name = text_field(fields, "name") or path.stem
        if not _NAME.fullmatch(name):
            raise Refused(f"has the invalid name {name!r}; use lowercase letters, digits and dashes")
        description, instructions = text_field(fields, "description"), body.strip()
        if not description or not instructions:
            missing = "instructions below its" if description else "description in its"
            raise Refused(f"has no {missing} front matter")
        mode_name = text_field(fields, "mode")
        mode = next((mode for mode in MODES if mode_name == mode), None)
        if mode_name and mode is None:
            raise Refused(f"has the invalid mode {mode_name}; choose one of {', '.join(MODES)}")
        tools = fields.get("tools")
        names = re.split(r"[\s,]+", tools) if isinstance(tools, str) else tools or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise Refused("has a `tools` field that is not a list of names")
        limits: dict[str, Any] = {}
        for key, limit in _LIMITS.items():
            if number := text_field(fields, key):
                is_whole, limits[limit] = limit in ("turns", "tokens"), -1
                with suppress(ValueError):
                    limits[limit] = int(number) if is_whole else float(number)
                if not 0 <= limits[limit] < 1e15:  # also NaN
                    raise Refused(f"has `{key}: {number}`; use a {'whole ' * is_whole}number, 0 or more")
        allowed = None if tools is None else frozenset(filter(None, names))
        model = text_field(fields, "model") or None
        if name in types:
            which = "a built-in type" if name in BUILT_IN else "another of your types"
            raise Refused(f"has the same name, {name}, as {which}")
        return AgentType(name, description, instructions, allowed, model, Limits(**limits), mode)

    for type_ in read_all(folder, "agent", read, warn):
        types[type_.name] = type_
    return types


def agent_types_block(types: Mapping[str, AgentType]) -> str:
    chosen = list(types.values())[:MOST]
    lines = [f"- {type_.name}: {cut_at_word(type_.description, LONGEST)}" for type_ in chosen]
    lines += [f"{len(types) - MOST} more are not shown here."] if len(types) > MOST else []
    return mask("\n".join(["Kinds of subagents:", *lines, ""])) if types else ""
